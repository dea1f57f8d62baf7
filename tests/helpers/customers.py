"""A small table of customers, and how the tests of a user's own table read it."""

import numpy as np
import pytest

from cutlayer.data.tables.table import table

ROWS = 40


PARTIES = {"bank": ["age", "owner"], "shop": ["city", "visits"]}


def customers(**changes):
    rng = np.random.default_rng(0)
    columns = {
        "id": [f"{row:03}" for row in range(ROWS)],
        "age": rng.integers(18, 90, ROWS).tolist(),
        "owner": ["yes" if row % 3 else "no" for row in range(ROWS)],
        "city": [("Bonn", "Kiel", "Ulm")[row % 3] for row in range(ROWS)],
        "visits": (rng.normal(size=ROWS) * 5 + 20).round(3).tolist(),
        "default": [row % 2 for row in range(ROWS)],
    }
    columns |= changes
    return {name: values for name, values in columns.items() if values is not None}


def load(path, **options):
    return table(path, **({"label": "default", "parties": PARTIES, "id_column": "id"} | options))


def column(task, party, name):
    names = [described.name for described in task.features[party].columns]
    return task.features[party].values[:, names.index(name)]


def refusal(kind, call):
    with pytest.raises(kind) as error:
        call()
    return str(error.value)


def with_gaps(values, *rows):
    return [None if row in rows else value for row, value in enumerate(values)]
