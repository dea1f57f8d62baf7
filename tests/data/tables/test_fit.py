import numpy as np
import pytest

from tests.helpers.customers import ROWS, column, customers, load, with_gaps


def test_gaps_are_filled_from_training_rows_with_a_note(save):
    columns = customers()
    task = load(
        save(visits=with_gaps(columns["visits"], 0, 5), city=with_gaps(columns["city"], 1, 2, 3)),
        scaling="none",
    )
    values = column(task, "shop", "visits")
    known = [row for row in task.train.tolist() if row not in (0, 5)]
    median = float(np.median(np.float32([columns["visits"][row] for row in known])))
    assert values[0] == values[5] == pytest.approx(median)
    assert "Filled 2 missing values of column 'visits' with the median" in task.notes[1]
    assert task.notes[0] == "Gave 3 missing values of column 'city' a level of their own."
    assert column(task, "shop", "city=(missing)").nonzero().flatten().tolist() == [1, 2, 3]


@pytest.mark.parametrize("word", ["", "NA", "null", "NaN", " NA "])
def test_words_for_missing_are_known(save, word):
    task = load(save(visits=[word if row in (3, 4) else str(row) for row in range(ROWS)]))
    assert task.notes[0].startswith("Filled 2 missing values of column 'visits'")


def test_a_gap_in_a_binary_number_takes_the_commoner_value(save):
    task = load(save(age=[None if row == 0 else int(row % 4 > 0) for row in range(ROWS)]))
    assert column(task, "bank", "age").unique().tolist() == [0, 1] and column(task, "bank", "age")[0] == 1
    assert "commoner value of the training rows, 1" in task.notes[0]


def test_constant_columns_go_and_identical_ones_stay(save):
    parties = {"bank": ["age", "owner"], "shop": ["city", "visits", "again", "same", "void"]}
    columns = customers(same=[3] * ROWS, void=[None] * ROWS)
    task = load(save(columns | {"again": columns["visits"]}), parties=parties)
    assert "Dropped column 'same': all training rows hold the same value." in task.notes
    assert "Dropped column 'void': all training rows hold the same value." in task.notes
    assert "Columns 'visits' and 'again' hold identical values; both were kept." in task.notes
    names = [described.name for described in task.features["shop"].columns]
    assert names[-2:] == ["visits", "again"]


def test_a_number_that_differs_in_every_row_is_pointed_out(save):
    task = load(save(age=list(range(ROWS))))
    assert "if it is an id, name it as id_column" in task.notes[0]
