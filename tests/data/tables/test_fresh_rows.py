"""Rows that come after training, read as training found the columns."""

import numpy as np
import polars as pl
import pytest

from cutlayer.data.tables.fitted import FittedTable
from cutlayer.data.tables.read import read_table
from tests.helpers.fitted_customers import NAMES, ROWS, TRAIN, customers, fit, fresh, inputs, refusal, same_bits


def test_unseen_levels_get_the_last_code_or_zeros():
    rows = fresh(city=["Kiel", "Trier", None])
    assert inputs(fit(), rows, "city") == [[0, 1, 0, 0], [0, 0, 0, 0], [0, 0, 0, 1]]
    assert inputs(fit(coding="integer"), rows, "city") == [[1], [4], [3]]


def test_a_gap_that_no_training_row_had_is_an_unseen_level():
    frame = customers().with_columns(pl.col("city").fill_null("Hof"))
    rows = fresh(city=[None, " NA ", "Hof"])
    assert inputs(fit(frame, coding="integer"), rows, "city") == [[4], [4], [1]]
    assert [column.levels for column in fit(frame).columns][2] == ("Bonn", "Hof", "Kiel", "Ulm")


def test_gaps_are_filled_as_in_training():
    frame = customers()
    rows = fresh(age=[None] * 3, visits=[None, float("nan"), None], owner=[None] * 3, paid=[None] * 3, half=[None] * 3)
    fitted = fit(scaling="none")
    ages = [frame["age"][int(row)] for row in TRAIN if row % 7]
    assert inputs(fitted, rows, "age") == [[np.float32(np.median(ages))]] * 3
    assert inputs(fitted, rows, "visits") == [[np.float32(np.median(frame["visits"].to_numpy()[TRAIN]))]] * 3
    for name in ("owner", "paid", "half"):
        assert inputs(fitted, rows, name) == [[1]] * 3


@pytest.mark.parametrize("blank", [pl.Null, pl.String, pl.Float64, pl.Date])
def test_a_column_without_any_value_is_only_missing(blank):
    rows = fresh().with_columns(pl.lit(None, dtype=blank).alias(name) for name in NAMES)
    filled = fresh().with_columns(pl.lit(None, dtype=customers()[name].dtype).alias(name) for name in NAMES)
    assert same_bits(fit().features(rows), fit().features(filled))


def test_other_widths_of_numbers_and_blanks_around_words_change_nothing():
    rows = fresh()
    other = rows.with_columns(pl.col("age").cast(pl.String) + " ", pl.col("half").cast(pl.Decimal(4, 2)))
    other = other.with_columns(pl.concat_str(pl.lit(" "), "owner").cast(pl.Categorical).alias("owner"))
    assert same_bits(fit().features(other), fit().features(rows))
    large = pl.DataFrame({"n": [100, 300] * 10, "z": range(20)})
    small = pl.DataFrame({"n": [100], "z": [1]}, schema={"n": pl.Int8, "z": pl.Float32})
    assert inputs(fit(large, ["n", "z"], np.arange(10)), small, "n") == [[0]]


def test_text_that_looks_like_numbers_or_dates_is_still_text(tmp_path):
    codes = ["01", "02", "x", "2020-01-01"]
    frame = pl.DataFrame({"code": [codes[row % 4] for row in range(ROWS)]})
    fitted = fit(frame, ["code"], coding="integer")
    (tmp_path / "fresh.csv").write_text("code\n02\n02\n")
    read, _ = read_table(tmp_path / "fresh.csv", text=fitted.text)
    assert fit(frame, ["code"], np.arange(ROWS), coding="integer").features(read).values.tolist() == [[1], [1]]
    assert "'code', as in training, got type Int64: read it as text" in refusal(
        lambda: fitted.features(read_table(tmp_path / "fresh.csv")[0])
    )
    dates = pl.DataFrame({"code": ["2020-01-01"]})
    assert fit(frame, ["code"], np.arange(ROWS), coding="integer").features(dates).values.tolist() == [[2]]


def test_no_rows_give_no_inputs():
    assert fit().features(customers()[:0]).values.shape == (0, 9)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"owner": ["yes", "secret", "secret"]}, ["'owner'", "another in 2 rows"]),
        ({"half": [0.5, float("inf"), 0.0]}, ["'half'", "another in 1 rows"]),
        ({"age": ["30", "secret", None]}, ["'age'", "Expected numbers", "text in 1 rows"]),
        ({"half": ["secret"] * 3}, ["'half'", "Expected numbers"]),
        ({"city": [1, 2, 3]}, ["'city'", "Expected text", "Int64"]),
        ({"owner": [True, False, True]}, ["'owner'", "Expected text", "Boolean"]),
        ({"paid": [1, 0, 1]}, ["'paid'", "Expected booleans", "Int64"]),
        ({"age": [True, False, True]}, ["'age'", "Expected numbers", "Boolean"]),
        ({"age": [[1], [2], [3]]}, ["'age'", "Expected numbers", "List"]),
        ({"visits": [float("inf"), 1.0, -1e39]}, ["'visits'", "got 2 that are infinite"]),
    ],
)
def test_rows_unlike_training_are_refused_without_their_values(changes, words):
    message = refusal(lambda: fit().features(fresh(**changes)))
    assert all(word in message for word in words) and "secret" not in message, message


def test_columns_that_are_not_there_are_named_and_dropped_ones_are_not_asked_for():
    message = refusal(lambda: fit().features(customers().drop("age", "city")))
    assert "'age', 'city'" in message
    fit(names=[*NAMES, "same"]).features(customers().drop("same"))


def test_missing_refuse_holds_for_fresh_rows():
    names = ["owner", "visits"]
    fitted = FittedTable.from_json(fit(names=names, missing="refuse").to_json())
    assert fitted.features(fresh()).values.shape == (3, 2)
    message = refusal(lambda: fitted.features(fresh(visits=[1.0, None, float("nan")], owner=["yes", "NA", "no"])))
    assert "'owner' (1), 'visits' (2): fill them" in message
    assert "'age' (6)" in refusal(lambda: fit(missing="refuse"))
