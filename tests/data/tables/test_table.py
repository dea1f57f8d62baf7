import gzip
import json

import numpy as np
import polars as pl
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cutlayer.data.tables.table import table
from cutlayer.data.task import ColumnKind, Goal
from cutlayer.errors import ConfigError, DataError

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


@pytest.fixture
def save(tmp_path):
    def write(columns=None, name="customers.csv", **changes):
        path = tmp_path / name
        pl.DataFrame(customers(**changes) if columns is None else columns, strict=False).write_csv(path)
        return path

    return write


@pytest.fixture
def write(tmp_path):
    def put(content, name="customers.csv"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return put


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


# What a good table becomes


def test_a_table_becomes_a_task(save):
    task = load(save())
    assert task.name == "customers" and task.label_party == "bank" and task.feature_parties == ("shop",)
    assert task.goal is Goal.BINARY and task.classes == ("0", "1") and task.labels.dtype == torch.int64
    assert [(described.name, described.kind) for described in task.features["bank"].columns] == [
        ("age", ColumnKind.NUMERIC),
        ("owner", ColumnKind.BINARY),
    ]
    assert task.features["shop"].values.dtype == torch.float32
    assert sorted([*task.train.tolist(), *task.test.tolist()]) == list(range(ROWS))
    assert len(task.test) == 8 and len(task.valid) == 0 and task.notes == ()


def test_one_hot_columns_name_their_source(save):
    shop = load(save()).features["shop"]
    assert [(one.name, one.source, one.levels) for one in shop.columns] == [
        ("city=Bonn", "city", 0),
        ("city=Kiel", "city", 0),
        ("city=Ulm", "city", 0),
        ("visits", "", 0),
    ]
    assert shop.values[:3, :3].tolist() == torch.eye(3).tolist()


def test_integer_coding_counts_levels_and_one_for_the_unseen(save):
    task = load(save(), coding="integer")
    described = task.features["shop"].columns[0]
    assert (described.kind, described.levels, described.source) == (ColumnKind.CATEGORICAL, 4, "")
    assert column(task, "shop", "city")[:3].tolist() == [0, 1, 2]


@pytest.mark.parametrize("coding", ["onehot", "integer"])
@pytest.mark.parametrize("scaling", ["standard", "minmax", "none"])
def test_binary_columns_stay_zero_and_one(save, coding, scaling):
    task = load(save(age=[7 if row % 5 else 3 for row in range(ROWS)]), coding=coding, scaling=scaling, valid=0.1)
    assert column(task, "bank", "owner").tolist() == [float(row % 3 > 0) for row in range(ROWS)]
    assert column(task, "bank", "age").tolist() == [float(row % 5 > 0) for row in range(ROWS)]
    assert all(described.kind is ColumnKind.BINARY for described in task.features["bank"].columns)


def test_booleans_are_binary_and_few_whole_numbers_stay_numeric(save):
    task = load(
        save(owner=[row % 3 == 0 for row in range(ROWS)], age=[row % 3 for row in range(ROWS)]),
        scaling="none",
    )
    assert [described.kind for described in task.features["bank"].columns] == [
        ColumnKind.NUMERIC,
        ColumnKind.BINARY,
    ]
    assert column(task, "bank", "owner")[:4].tolist() == [1, 0, 0, 1]
    assert column(task, "bank", "age")[:4].tolist() == [0, 1, 2, 0]


def test_scales_are_those_of_the_training_rows(save):
    path = save()
    raw = column(load(path, scaling="none"), "shop", "visits")
    task = load(path)
    seen = raw[task.train].double()
    standard = (raw.double() - seen.mean()) / seen.std(correction=0)
    assert torch.allclose(column(task, "shop", "visits").double(), standard, atol=1e-5)
    minmax = column(load(path, scaling="minmax"), "shop", "visits")[task.train]
    assert minmax.min() == 0 and minmax.max() == 1


@settings(max_examples=20, deadline=None)
@given(st.data(), st.sampled_from(["standard", "minmax", "none"]), st.sampled_from(["onehot", "integer"]))
def test_what_test_rows_hold_never_changes_training_inputs(tmp_path_factory, data, scaling, coding):
    path = tmp_path_factory.mktemp("tables") / "customers.csv"
    columns = customers()
    columns["visits"] = with_gaps(columns["visits"], 1, 2, 3)
    pl.DataFrame(columns).write_csv(path)
    before = load(path, scaling=scaling, coding=coding)
    columns = dict(columns, city=list(columns["city"]), visits=list(columns["visits"]))
    for row in before.test.tolist():
        columns["visits"][row] = data.draw(st.none() | st.floats(-1e6, 1e6))
        columns["city"][row] = data.draw(st.sampled_from(["Bonn", "Jena", "Trier"]))
    pl.DataFrame(columns).write_csv(path)
    after = load(path, scaling=scaling, coding=coding)
    assert torch.equal(before.train, after.train)
    for party, features in before.features.items():
        assert features.columns == after.features[party].columns
        assert torch.equal(features.values[before.train], after.features[party].values[before.train])


def test_unseen_levels_are_zero_or_a_code_of_their_own(save):
    rows = load(save()).test.tolist()
    cities = customers()["city"]
    cities[rows[0]] = "Jena"
    path = save(city=cities)
    task = load(path)
    assert task.features["shop"].values[rows[0], :3].tolist() == [0, 0, 0]
    assert column(load(path, coding="integer"), "shop", "city")[rows[0]] == 3
    assert task.notes == ("Column 'city' holds levels in 1 rows that no training row has.",)


def test_names_are_trimmed_and_numbers_with_blanks_are_numbers(write):
    rows = "".join(f" {row}, x{row % 2},{row % 2}\n" for row in range(ROWS))
    task = table(write(f"age , city,default\n{rows}"), label="default", label_party="us", scaling="none")
    assert task.features["party1"].columns[0].name == "age"
    assert column(task, "party1", "age")[:3].tolist() == [0, 1, 2]


# Formats


@pytest.mark.parametrize("mark", [";", "\t", "|"])
def test_separators_are_detected(tmp_path, mark):
    path = tmp_path / "customers.txt"
    pl.DataFrame(customers(city=["Ulm, Bonn"[row % 2 :] for row in range(ROWS)])).write_csv(path, separator=mark)
    assert [described.name for described in load(path).features["shop"].columns] == ["city", "visits"]


def test_gzip_and_parquet_give_the_same_task(save, tmp_path):
    path = save()
    zipped = tmp_path / "customers.csv.gz"
    zipped.write_bytes(gzip.compress(path.read_bytes()))
    parquet = tmp_path / "customers.parquet"
    pl.DataFrame(customers()).write_parquet(parquet)
    expected = load(path)
    for other in (load(zipped), load(parquet)):
        assert other.name == "customers"
        assert torch.equal(other.features["shop"].values, expected.features["shop"].values)


def test_parquet_categories_decimals_and_lists(tmp_path):
    frame = pl.DataFrame(customers()).with_columns(
        pl.col("city").cast(pl.Categorical), pl.col("visits").cast(pl.Decimal(10, 3))
    )
    frame.write_parquet(tmp_path / "a.parquet")
    assert len(load(tmp_path / "a.parquet").features["shop"].columns) == 4
    frame.with_columns(visits=pl.concat_list("age", "age")).write_parquet(tmp_path / "b.parquet")
    words = refusal(DataError, lambda: load(tmp_path / "b.parquet"))
    assert "'visits'" in words and "leave it out" in words


def test_blank_lines_and_a_byte_order_mark_are_skipped(write):
    rows = "".join(f"{row},{row * row},{row % 2}\r\n\r\n" for row in range(ROWS))
    task = table(write("\ufeffage,visits,default\r\n" + rows), label="default")
    assert len(task.labels) == ROWS


def test_quoted_text_may_hold_separators_and_line_ends(write):
    rows = "".join(f'{row},"a, ""b""\n{row % 3}",{row % 2}\n' for row in range(ROWS))
    task = table(write("age,city,default\n" + rows), label="default", label_party="us")
    assert task.features["party2"].columns[0].name == 'city=a, ""b""\n0'.replace('""', '"')


def test_nothing_is_written(save, tmp_path):
    path = save()
    load(path)
    assert list(tmp_path.iterdir()) == [path]


# Labels


def test_text_labels_are_sorted_and_keep_their_names(save):
    task = load(save(default=[("low", "high", "mid")[row % 3] for row in range(ROWS)]))
    assert task.goal is Goal.MULTICLASS and task.classes == ("high", "low", "mid")
    assert task.labels[:3].tolist() == [1, 0, 2]


@pytest.mark.parametrize(
    ("values", "classes"),
    [
        ([0.0, 1.0], ("0", "1")),
        ([True, False], ("false", "true")),
        ([10, 9], ("9", "10")),
        ([0.5, 2], ("0.5", "2")),
    ],
)
def test_class_names_read_as_in_the_table(save, values, classes):
    assert load(save(default=[values[row % 2] for row in range(ROWS)])).classes == classes


def test_many_decimals_are_a_regression_and_a_goal_decides(save):
    path = save(default=[row + 0.5 for row in range(ROWS)])
    task = load(path)
    assert task.goal is Goal.REGRESSION and task.classes == () and task.labels.dtype == torch.float32
    assert task.labels[:2].tolist() == [0.5, 1.5]
    assert load(save(), goal=Goal.REGRESSION).goal is Goal.REGRESSION
    assert load(save(), goal="multiclass").goal is Goal.MULTICLASS


def test_every_class_is_in_training_and_shares_are_kept(save):
    task = load(save(default=[int(row < 10) for row in range(ROWS)]), test=0.2, valid=0.1)
    assert [len(task.train), len(task.valid), len(task.test)] == [28, 4, 8]
    assert task.labels[task.test].sum() == 2 and task.labels[task.valid].sum() == 1


# Notes


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


def test_columns_of_nobody_are_left_out_with_a_note(save):
    task = load(save(), parties={"bank": ["age"], "shop": ["visits"]})
    assert task.notes == ("Left out 2 columns that no party holds: owner, city.",)


def test_a_number_that_differs_in_every_row_is_pointed_out(save):
    task = load(save(age=list(range(ROWS))))
    assert "if it is an id, name it as id_column" in task.notes[0]


# Parties


def test_a_label_party_may_hold_labels_only(save):
    task = load(save(), label_party="registry")
    assert task.label_party == "registry" and task.feature_parties == ("bank", "shop")
    assert load(save(), label_party="shop").feature_parties == ("bank",)


def test_a_number_of_parties_divides_the_columns_evenly(save):
    task = load(save(), parties=None, coding="integer")
    assert [[c.name for c in task.features[p].columns] for p in ("party1", "party2")] == [
        ["age", "owner"],
        ["city", "visits"],
    ]
    assert len(load(save(), parties=4).features) == 4


@pytest.mark.parametrize("partition", ["even", "random", "importance", "correlation"])
@pytest.mark.parametrize("label", [[row % 2 for row in range(ROWS)], [row / 7 for row in range(ROWS)]])
def test_partitions_hold_every_column_once_and_repeat(save, partition, label):
    path = save(default=label)
    first, second = (load(path, parties=3, partition=partition, coding="integer", seed=4) for _ in range(2))
    names = [described.name for features in first.features.values() for described in features.columns]
    assert sorted(names) == ["age", "city", "owner", "visits"]
    assert [f.columns for f in first.features.values()] == [f.columns for f in second.features.values()]


# Making it again


def test_the_source_is_json_and_makes_the_task_again(save):
    for options in ({}, {"parties": 2, "partition": "random", "goal": Goal.BINARY, "valid": 0.2, "seed": 3}):
        task = load(save(), **options)
        source = json.loads(json.dumps(task.source))
        again = table(source.pop("table"), **source)
        assert torch.equal(task.train, again.train) and dict(task.source) == dict(again.source)
        for party, features in task.features.items():
            assert torch.equal(features.values, again.features[party].values)


def test_a_changed_table_is_refused(save):
    task = load(save())
    path = save(age=list(range(ROWS)))
    words = refusal(DataError, lambda: load(path, sha256=task.source["sha256"]))
    assert "the table changed since the run" in words and "customers.csv" in words


def test_seeds_choose_other_test_rows(save):
    path = save()
    assert not torch.equal(load(path, seed=0).test, load(path, seed=1).test)


# Refusals: columns


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
    said = refusal(DataError, lambda: load(save(**changes)))
    assert all(word in said for word in words), said


def test_missing_refuse_names_columns_and_counts(save):
    columns = customers()
    path = save(visits=with_gaps(columns["visits"], 0, 5), city=with_gaps(columns["city"], 1))
    said = refusal(DataError, lambda: load(path, missing="refuse"))
    assert "'city' (1), 'visits' (2)" in said and "missing='impute'" in said


def test_only_columns_in_use_are_judged(save):
    task = load(save(note=[f"text {row}" for row in range(ROWS)]))
    assert task.notes == ("Left out 1 columns that no party holds: note.",)


def test_a_column_that_cannot_be_used_is_left_out(save):
    path = save(day=[f"2020-01-{row % 28 + 1:02}" for row in range(ROWS)])
    assert "leave it out" in refusal(DataError, lambda: load(path, parties=2))
    task = load(path, parties=2, without=["day"])
    names = {one.source or one.name for features in task.features.values() for one in features.columns}
    assert names == {"age", "owner", "city", "visits"} and task.notes == ()
    source = json.loads(json.dumps(task.source))
    assert source["without"] == ["day"] and table(source.pop("table"), **source).source == task.source
    assert "without" not in load(save()).source  # the names of results known before stay


# Refusals: files


RECORDS = ", ".join(f'{{"age": "{67 + row}", "city": "Bonn {row}"}}' for row in range(50))


@pytest.mark.parametrize("content", [f"[{RECORDS}]", f"\n[ {RECORDS}]", '{"age": 67}\n{"age": 68}\n'])
def test_json_is_named_and_its_records_are_not_spilled(write, content):
    said = refusal(DataError, lambda: table(write(content, "c.json"), label="default"))
    assert "Expected a CSV or Parquet file, got JSON" in said and "67" not in said


def test_few_names_are_quoted_and_a_name_in_brackets_is_a_name(write):
    twice = ",".join([f"a{number}" for number in range(9)] * 2)
    said = refusal(DataError, lambda: table(write(f"{twice}\n"), label="default"))
    assert "got 'a0', 'a1', 'a2' and 6 more more than once" in said
    said = refusal(DataError, lambda: table(write(f"{'x' * 99},{'x' * 99}\n"), label="default"))
    assert "x" * 41 not in said
    rows = "".join(f"{row},{row * row},{row % 2}\n" for row in range(ROWS))
    assert table(write("[age],[visits],[default]\n" + rows), label="[default]").classes == ("0", "1")


def test_a_frame_is_no_file():
    said = refusal(DataError, lambda: table(pl.DataFrame(customers()), label="default"))
    assert said.startswith("Expected the path of a CSV or Parquet file, got a DataFrame")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "empty file"),
        ("\n\n", "empty file"),
        ("age,visits,default\n", "got none"),
        ("age,age,default\n1,2,3\n", "'age' more than once"),
        ("age,,default\n1,2,3\n", "none for column 2"),
        ("age,visits,default\n1,2,3\n\n4,5\n6\n", "got 2 in line 4 (2 such lines)"),
        ("age,visits,default\n1,2,3,4\n", "Expected 3 fields"),
        ('age,visits,default\n1,"2,3\n', "closed"),
        ("age,visits,default\n1,2,0\n3,4,1\n", "at least 10 rows"),
        (b"age,visits,default\n1,\xe9,3\n", "UTF-8"),
        (b"age,stra\xdfe,default\n1,2,3\n", "UTF-8"),
        (b"PAR1 and then nonsense", "whole Parquet file"),
        (b"PK\x03\x04 a spreadsheet", "save"),
        (b"\x1f\x8b broken", "damaged"),
    ],
)
def test_files_that_cannot_be_read_are_refused_in_words(write, content, words):
    path = write(content)
    said = refusal(DataError, lambda: table(path, label="default"))
    assert words in said and ("customers.csv" in said)


def test_a_file_that_is_not_there_is_named(tmp_path):
    assert "nowhere.csv" in refusal(DataError, lambda: table(tmp_path / "nowhere.csv", label="y"))
    assert "found none" in refusal(DataError, lambda: table(tmp_path, label="y"))


def test_a_table_without_inputs_is_refused(write):
    path = write("default\n" + "".join(f"{row % 2}\n" for row in range(ROWS)))
    assert "columns besides the label" in refusal(DataError, lambda: table(path, label="default"))


# Refusals: arguments


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"label": "defualt"},
            "'defualt' to be a column of the table, found none of that name. Did you mean 'default'?",
        ),
        ({"label": "zzz"}, "Its columns are id, age"),
        ({"id_column": "ids"}, "Did you mean 'id'?"),
        ({"id_column": "default"}, "different columns for label and id_column"),
        (
            {"parties": {"bank": ["agee"], "shop": ["city"]}},
            "'agee' of party 'bank' to be a column of the table, found none of that name. Did you mean",
        ),
        (
            {"parties": {"bank": ["age"], "shop": ["age"]}},
            "'age' to be held once, got it named by 'bank' and 'shop'",
        ),
        ({"parties": {"bank": ["age", "age"], "shop": ["city"]}}, "named twice by 'bank'"),
        ({"parties": {"bank": ["age", "default"], "shop": ["city"]}}, "got the label 'default'"),
        ({"parties": {"bank": ["age", "id"], "shop": ["city"]}}, "got the id column 'id'"),
        ({"parties": {"bank": ["age"], "shop": []}}, "one column for party 'shop'"),
        ({"parties": {"bank": "age", "shop": ["city"]}}, "list of columns for party 'bank'"),
        ({"parties": {" ": ["age"], "shop": ["city"]}}, "name for every party"),
        ({"parties": {}}, "at least one party"),
        ({"parties": {"bank": ["age"]}}, "second party, got only 'bank'"),
        ({"parties": 1}, "second party, got only 'party1'"),
        ({"parties": 0}, "parties=0"),
        ({"parties": 9}, "9 parties and 4 columns"),
        ({"partition": "random"}, "number of parties for partition='random'"),
        ({"partition": "evn"}, "Did you mean 'even'?"),
        ({"coding": "one-hot"}, "Did you mean 'onehot'?"),
        ({"scaling": "std"}, "standard, minmax, none"),
        ({"missing": "drop"}, "impute, refuse"),
        ({"goal": "regresion"}, "Did you mean 'regression'?"),
        ({"label_party": ""}, "name for label_party"),
        ({"test": 0.0}, "test=0.0"),
        ({"test": 0.6, "valid": 0.4}, "below 1"),
        ({"valid": -0.1}, "valid=-0.1"),
        ({"label": "city", "goal": "regression", "parties": 2}, "'Bonn'"),
        ({"label": "city", "goal": "binary", "parties": 2}, "got 3: pass goal='multiclass'"),
        ({"label": None}, "name of one column, got None"),
        ({"label": ["default"]}, "name of one column, got a list"),
        ({"id_column": 3}, "name for id_column, got 3"),
        ({"test": "0.2"}, "test='0.2' to be a number"),
        ({"seed": "0"}, "seed='0' to be a whole number"),
        ({"parties": "2"}, "parties='2' to be a whole number"),
        ({"without": ["agee"], "parties": 2}, "Did you mean 'age'?"),
        ({"without": "age", "parties": 2}, "without to be a list of columns"),
        ({"without": ["default"], "parties": 2}, "got 'default', the label or id column"),
        ({"without": ["age"]}, "'age' held by a party or in without, got it in both"),
    ],
)
def test_bad_arguments_are_refused_in_words(save, options, words):
    said = refusal(ConfigError, lambda: load(save(), **options))
    assert words in said, said
