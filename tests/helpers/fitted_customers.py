"""A table with gaps, fitted on every other row, and fresh rows for it."""

import numpy as np
import polars as pl
import pytest

from cutlayer.data.tables.columns import clean
from cutlayer.data.tables.fitted import FittedTable
from cutlayer.errors import DataError

ROWS = 40


TRAIN = np.arange(0, ROWS, 2)


NAMES = ["age", "owner", "city", "visits", "paid", "half"]


def customers():
    rng = np.random.default_rng(0)
    cities = [("Bonn", "Kiel", "Ulm", None)[row % 8 // 2] for row in range(ROWS)]
    return pl.DataFrame(
        {
            "age": [None if row % 7 == 0 else age for row, age in enumerate(rng.integers(18, 90, ROWS).tolist())],
            "owner": ["yes" if row % 3 else "no" for row in range(ROWS)],
            "city": ["Jena" if row == 1 else city for row, city in enumerate(cities)],
            "visits": rng.normal(size=ROWS) * 5 + 20,
            "paid": [None if row == 0 else row % 3 > 0 for row in range(ROWS)],
            "half": [None if row == 2 else 0.5 * (row % 5 > 0) for row in range(ROWS)],
            "same": [3] * ROWS,
        }
    )


def fit(frame=None, names=NAMES, train=TRAIN, **options):
    frame = customers() if frame is None else frame
    notes = options.pop("notes", [])
    return FittedTable.fit([clean(frame[name]) for name in names], train, notes=notes, **options)


def fresh(rows=3, **changes):
    return customers()[:rows].with_columns(pl.Series(name, cells, strict=False) for name, cells in changes.items())


def inputs(fitted, frame, name):
    """What the encoding makes of one column, one-hot coded or not."""
    features = fitted.features(frame)
    places = [place for place, column in enumerate(features.columns) if name in (column.name, column.source)]
    return features.values[:, places].tolist()


def refusal(call, kind=DataError):
    with pytest.raises(kind) as error:
        call()
    return str(error.value)


def same_bits(first, second):
    return first.columns == second.columns and first.values.numpy().tobytes() == second.values.numpy().tobytes()
