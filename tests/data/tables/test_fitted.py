"""What training learned of a table encodes the same rows to the same bits."""

import json
import subprocess
import sys

import numpy as np
import polars as pl
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cutlayer.data.tables.fitted import FittedTable
from cutlayer.data.tables.read import read_table
from cutlayer.data.tables.table import table
from cutlayer.data.task import ColumnKind
from cutlayer.errors import ConfigError
from tests.helpers.fitted_customers import NAMES, ROWS, customers, fit, refusal, same_bits


@pytest.mark.parametrize("coding", ["onehot", "integer"])
@pytest.mark.parametrize("scaling", ["standard", "minmax", "none"])
def test_a_table_and_its_saved_encoding_give_the_same_bits(tmp_path, coding, scaling):
    frame = customers().with_columns(default=pl.Series([row % 2 for row in range(ROWS)]))
    frame.write_csv(tmp_path / "customers.csv")
    parties = {"bank": ["visits", "owner", "same"], "shop": ["city", "age", "half", "paid"]}
    task = table(tmp_path / "customers.csv", label="default", parties=parties, coding=coding, scaling=scaling)
    read, _ = read_table(tmp_path / "customers.csv")
    for party, names in parties.items():
        fitted = fit(read, names, task.train.numpy(), coding=coding, scaling=scaling)
        again = FittedTable.from_json(json.loads(json.dumps(fitted.to_json())))
        assert again == fitted and again.inputs == task.features[party].columns
        for encoding in (fitted, again):
            assert same_bits(encoding.features(read), task.features[party])
            assert same_bits(encoding.features(read.select(reversed(read.columns))), task.features[party])
        one_row = torch.cat([again.features(read[row]).values for row in range(ROWS)])
        assert torch.equal(one_row, task.features[party].values)


cells = st.lists(st.none() | st.floats(-1e37, 1e37), min_size=12, max_size=12)


words = st.lists(st.none() | st.sampled_from("abc"), min_size=12, max_size=12)


sides = st.lists(st.none() | st.booleans(), min_size=12, max_size=12)


@settings(max_examples=60, deadline=None)
@given(cells, words, sides, st.permutations(range(12)), st.sampled_from(["standard", "minmax", "none"]))
def test_train_rows_follow_the_formula(numbers, letters, flags, order, scaling):
    train = np.sort(order[:8])
    frame = pl.DataFrame(
        {"x": numbers, "c": letters, "b": flags}, schema={"x": pl.Float64, "c": pl.String, "b": pl.Boolean}
    )
    fitted = fit(frame, ["x", "c", "b"], train, scaling=scaling, coding="integer")
    fitted = FittedTable.from_json(json.loads(json.dumps(fitted.to_json())))
    features = fitted.features(frame[train])
    expected = {}

    values = np.array([np.nan if cell is None else cell for cell in numbers])[train]
    known = values[~np.isnan(values)]
    values[np.isnan(values)] = np.median(known) if len(known) else 0.0
    if values.min() < values.max() and len({cell for cell in numbers if cell is not None}) > 2:
        low, wide = {
            "standard": (values.mean(), values.std()),
            "minmax": (values.min(), values.max() - values.min()),
            "none": (0.0, 1.0),
        }[scaling]
        expected["x"] = (values - low) / (wide if wide > 0 else 1.0)

    seen = [letters[row] or "(missing)" for row in train]
    levels = sorted(set(seen) - {"(missing)"}) + ["(missing)"] * ("(missing)" in seen)
    if len(levels) > 1:
        expected["c"] = np.array([levels.index(level) for level in seen], dtype=float)

    given_flags = [flags[row] for row in train if flags[row] is not None]
    commoner = bool(given_flags) and np.mean(given_flags) > 0.5
    filled = np.array([commoner if flags[row] is None else flags[row] for row in train], dtype=float)
    if filled.min() < filled.max():
        expected["b"] = filled

    kept = {column.name: features.values[:, place].numpy() for place, column in enumerate(features.columns)}
    if len({cell for cell in numbers if cell is not None}) == 2:  # then it is binary, and coded 0 and 1
        assert set(kept.pop("x", np.array([])).tolist()) <= {0.0, 1.0}
    assert list(kept) == list(expected)
    for name, column in expected.items():
        assert kept[name].tobytes() == column.astype(np.float32).tobytes()


def test_notes_and_kinds_are_those_of_a_table():
    notes = []
    fitted = fit(names=[*NAMES, "same"], notes=notes)
    assert [column.kind for column in fitted.columns] == [
        ColumnKind.NUMERIC,
        ColumnKind.BINARY,
        ColumnKind.CATEGORICAL,
        ColumnKind.NUMERIC,
        ColumnKind.BINARY,
        ColumnKind.BINARY,
    ]
    assert [note.split(" column ")[0] for note in notes] == [
        "Filled 6 missing values of",
        "Gave 10 missing values of",
        "Column 'city' holds levels in 1 rows that no training row has.",
        "Filled 1 missing values of",
        "Filled 1 missing values of",
        "Dropped",
    ]
    assert fitted.text == ("owner", "city") and "same" not in fitted.names


def test_only_takes_columns_in_the_order_of_their_names():
    frame = customers()
    part = fit().only(["visits", "age"])
    assert part.names == ("visits", "age")
    assert torch.equal(part.features(frame).values, fit().features(frame).values[:, [6, 0]])


def test_a_table_of_constants_has_no_inputs():
    fitted = fit(names=["same"])
    assert fitted.columns == () and fitted.features(customers()).values.shape == (ROWS, 0)
    assert FittedTable.from_json(fitted.to_json()) == fitted


@pytest.mark.parametrize("option", ["coding", "scaling", "missing"])
def test_unknown_options_are_refused(option):
    assert f"Unknown {option} 'other'" in refusal(lambda: fit(**{option: "other"}), ConfigError)


def test_no_training_rows_are_refused():
    assert "training rows" in refusal(lambda: fit(train=np.array([], dtype=np.int64)))


def test_reading_an_encoding_does_not_load_polars():
    code = "import sys, cutlayer.data.tables.fitted; sys.exit('polars' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
