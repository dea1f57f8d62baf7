import json
import subprocess
import sys

import numpy as np
import polars as pl
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cutlayer.data.tables.columns import clean
from cutlayer.data.tables.fitted import FittedTable
from cutlayer.data.tables.read import read_table
from cutlayer.data.tables.table import table
from cutlayer.data.task import ColumnKind
from cutlayer.errors import ConfigError, DataError

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
    places = [place for place, one in enumerate(features.columns) if name in (one.name, one.source)]
    return features.values[:, places].tolist()


def refusal(call, kind=DataError):
    with pytest.raises(kind) as error:
        call()
    return str(error.value)


def same_bits(first, second):
    return first.columns == second.columns and first.values.numpy().tobytes() == second.values.numpy().tobytes()


# One implementation


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
    made = fitted.features(frame[train])
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

    kept = {one.name: made.values[:, place].numpy() for place, one in enumerate(made.columns)}
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


# Fresh rows


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
    said = refusal(lambda: fit().features(fresh(**changes)))
    assert all(word in said for word in words) and "secret" not in said, said


def test_columns_that_are_not_there_are_named_and_dropped_ones_are_not_asked_for():
    said = refusal(lambda: fit().features(customers().drop("age", "city")))
    assert "'age', 'city'" in said
    fit(names=[*NAMES, "same"]).features(customers().drop("same"))


def test_missing_refuse_holds_for_fresh_rows():
    names = ["owner", "visits"]
    fitted = FittedTable.from_json(fit(names=names, missing="refuse").to_json())
    assert fitted.features(fresh()).values.shape == (3, 2)
    said = refusal(lambda: fitted.features(fresh(visits=[1.0, None, float("nan")], owner=["yes", "NA", "no"])))
    assert "'owner' (1), 'visits' (2): fill them" in said
    assert "'age' (6)" in refusal(lambda: fit(missing="refuse"))


# Saved encodings


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
    said = refusal(lambda: FittedTable.from_json(fit().to_json() | changes))
    assert "damaged" in said and said.count(".") == 1


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


# Arguments


@pytest.mark.parametrize("option", ["coding", "scaling", "missing"])
def test_unknown_options_are_refused(option):
    assert f"Unknown {option} 'other'" in refusal(lambda: fit(**{option: "other"}), ConfigError)


def test_no_training_rows_are_refused():
    assert "training rows" in refusal(lambda: fit(train=np.array([], dtype=np.int64)))


def test_reading_an_encoding_does_not_load_polars():
    code = "import sys, cutlayer.data.tables.fitted; sys.exit('polars' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
