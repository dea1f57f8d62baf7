import pytest

from cutlayer.errors import ConfigError
from cutlayer.finding import Status, Target
from cutlayer.report.row import COLUMNS, COUNTS, FIGURES, WORDS, order, read_missing, read_row, value_and_baseline
from tests.helpers import synthetic_record as synthetic


def test_every_column_is_a_word_a_figure_or_a_count():
    assert sorted((*WORDS, *FIGURES, *COUNTS)) == sorted(COLUMNS)
    assert "status" in WORDS and "value" in FIGURES and "seed" in COUNTS


def test_rows_have_exactly_the_columns():
    good = synthetic.rows()[0]
    assert tuple(read_row(good)) == COLUMNS
    with pytest.raises(ConfigError, match="the row to have paper"):
        read_row({key: value for key, value in good.items() if key != "paper"})
    with pytest.raises(ConfigError, match="Unknown key of the row: colour"):
        read_row(good | {"colour": "red"})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"status": "finished"}, "status"),
        ({"target": "label"}, "Did you mean 'labels'"),
        ({"metric": "f1"}, "metric"),
        ({"value": "high"}, "value of the row"),
        ({"attack": None}, "attack of the row"),
        ({"seed": None}, "seed"),
    ],
)
def test_wrong_rows_are_refused(changes, message):
    with pytest.raises(ConfigError, match=message):
        read_row(synthetic.rows()[0] | changes)


def test_a_figure_that_is_not_finite_is_a_failure():
    row = read_row(synthetic.rows()[0] | {"value": float("nan")})
    assert row["status"] is Status.FAILED and "finite value" in row["reason"] and row["value"] is None


def test_states_and_targets_are_members_of_their_sets():
    row = read_row(synthetic.rows()[0])
    assert row["status"] is Status.DONE and isinstance(row["target"], Target)


def test_what_is_missing_has_no_figures():
    row = read_missing({"defence": "none", "attack": "pgd", "seed": 3})
    assert row["status"] is Status.MISSING and row["value"] is None and row["victim"] == ""
    with pytest.raises(ConfigError, match="a finding that is done, got one that is missing"):
        value_and_baseline(row)


def test_strengths_are_ordered_as_numbers_and_undefended_comes_first():
    rows = [read_row(row) for row in synthetic.rows()]
    setups = list(dict.fromkeys((row["defence"], row["strength"]) for row in sorted(rows, key=order)))
    assert setups[0] == ("none", "") and setups.index(("hash", "bits=4")) < setups.index(("hash", "bits=16"))
