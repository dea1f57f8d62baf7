"""A saved encoding: plain JSON, and damage is refused."""

import pytest

from cutlayer.data.tables.fitted import FittedTable
from tests.helpers.fitted_customers import NAMES, fit, refusal


def test_a_saved_encoding_is_plain_json():
    saved = fit(names=["half", "city"], coding="integer").to_json()
    assert saved == {
        "version": 1,
        "coding": "integer",
        "missing": "impute",
        "columns": [
            {
                "name": "half",
                "kind": "binary",
                "holds": "numbers",
                "levels": [0.0, 0.5],
                "fill": 1.0,
                "start": 0.0,
                "span": 1.0,
            },
            {
                "name": "city",
                "kind": "categorical",
                "holds": "text",
                "levels": ["Bonn", "Kiel", "Ulm", "(missing)"],
                "fill": 0.0,
                "start": 0.0,
                "span": 1.0,
            },
        ],
    }


@pytest.mark.parametrize(
    "changes",
    [
        {"version": 2},
        {"coding": "hot"},
        {"coding": None},
        {"missing": 3},
        {"columns": None},
        {"columns": "age"},
        {"columns": ["age"]},
        {"more": 1},
    ],
)
def test_a_damaged_encoding_is_refused_in_one_sentence(changes):
    message = refusal(lambda: FittedTable.from_json(fit().to_json() | changes))
    assert "damaged" in message and message.count(".") == 1


@pytest.mark.parametrize("place", range(len(NAMES)))
@pytest.mark.parametrize(
    "changes",
    [
        {"name": 3},
        {"kind": "image"},
        {"holds": "dates"},
        {"levels": None},
        {"levels": ["a", "a"]},
        {"levels": [1.0, float("inf")]},
        {"levels": [2, 1]},
        {"levels": [[], []]},
        {"levels": "ab"},
        {"fill": "0"},
        {"fill": None},
        {"start": float("nan")},
        {"start": 10**400},
        {"span": 0.0},
        {"span": -1.0},
        {"span": True},
        {"more": 1},
    ],
)
def test_a_damaged_column_is_refused(place, changes):
    saved = fit().to_json()
    saved["columns"][place] |= changes
    assert "damaged" in refusal(lambda: FittedTable.from_json(saved))


@pytest.mark.parametrize("field", ["name", "kind", "holds", "levels", "fill", "start", "span"])
def test_a_column_without_a_field_or_twice_is_refused(field):
    saved = fit().to_json()
    del saved["columns"][0][field]
    assert "damaged" in refusal(lambda: FittedTable.from_json(saved))
    saved = fit().to_json()
    saved["columns"].append(saved["columns"][0])
    assert "damaged" in refusal(lambda: FittedTable.from_json(saved))


@pytest.mark.parametrize("saved", [None, [], "text", 3, {}])
def test_something_else_is_refused(saved):
    assert "damaged" in refusal(lambda: FittedTable.from_json(saved))
