"""Columns that are refused, each in one sentence."""

import pytest

from cutlayer.errors import DataError
from tests.helpers.customers import ROWS, customers, load, refusal, with_gaps


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"city": [f"street {row}" for row in range(ROWS)]},
            ["'city'", "got 40", "id_column", "fewer levels"],
        ),
        (
            {"city": [f"2020-01-{row % 28 + 1:02}" for row in range(ROWS)]},
            ["'city'", "dates", "leave it out"],
        ),
        ({"city": [f"{row % 28 + 1}.02.2020" for row in range(ROWS)]}, ["'city'", "dates"]),
        ({"city": [f"2020-01-01T{row % 24:02}:30:00Z" for row in range(ROWS)]}, ["'city'", "dates"]),
        ({"city": [f"{row % 24}:30" for row in range(ROWS)]}, ["'city'", "times"]),
        ({"visits": ["?" if row == 7 else str(row) for row in range(ROWS)]}, ["'visits'", "got 1 ", "'?'"]),
        ({"visits": [f"{row},5" for row in range(ROWS)]}, ["'visits'", "decimal commas", "'0,5'"]),
        (
            {"visits": [float("inf") if row < 2 else row for row in range(ROWS)]},
            ["'visits'", "got 2", "infinite"],
        ),
        ({"visits": [float("inf") if row % 2 else 1.0 for row in range(ROWS)]}, ["'visits'", "got 20"]),
        ({"visits": [1e300 if row < 2 else row for row in range(ROWS)]}, ["'visits'", "beyond 1e+38"]),
        ({"default": [None, None, *[row % 2 for row in range(38)]]}, ["2 of 40 rows", "'default'", "remove"]),
        ({"default": ["no"] * ROWS}, ["two different labels", "'no'", "'default'"]),
        ({"default": ["rare", *["a", "b"] * 19, "a"]}, ["'rare'", "two rows of every class", "merge"]),
        ({"default": list(range(ROWS))}, ["two rows of every class", "goal='regression'"]),
        ({"default": [float("inf"), *[0.5] * 39]}, ["finite labels", "'default'"]),
        ({"id": ["1", "1", "1", *map(str, range(2, 39))]}, ["'id'", "2 repeats", "one row per id"]),
        ({"id": with_gaps([f"{row}" for row in range(ROWS)], 3)}, ["'id'", "1 rows without one"]),
        ({"age": [4] * ROWS, "owner": ["x"] * ROWS}, ["party 'bank'", "constant", "age, owner"]),
    ],
)
def test_tables_that_cannot_be_used_are_refused_in_words(save, changes, words):
    message = refusal(DataError, lambda: load(save(**changes)))
    assert all(word in message for word in words), message


def test_missing_refuse_names_columns_and_counts(save):
    columns = customers()
    path = save(visits=with_gaps(columns["visits"], 0, 5), city=with_gaps(columns["city"], 1))
    message = refusal(DataError, lambda: load(path, missing="refuse"))
    assert "'city' (1), 'visits' (2)" in message and "missing='impute'" in message
