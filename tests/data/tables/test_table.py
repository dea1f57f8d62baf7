"""A user's table becomes a task, and the same task again."""

import json

import polars as pl
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cutlayer.data.tables.table import table
from cutlayer.data.task import ColumnKind, Goal
from cutlayer.errors import ConfigError, DataError
from tests.helpers.customers import ROWS, customers, load, refusal, with_gaps


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


def test_nothing_is_written(save, tmp_path):
    path = save()
    load(path)
    assert list(tmp_path.iterdir()) == [path]


def test_every_class_is_in_training_and_shares_are_kept(save):
    task = load(save(default=[int(row < 10) for row in range(ROWS)]), test=0.2, valid=0.1)
    assert [len(task.train), len(task.valid), len(task.test)] == [28, 4, 8]
    assert task.labels[task.test].sum() == 2 and task.labels[task.valid].sum() == 1


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


def test_only_columns_in_use_are_judged(save):
    task = load(save(note=[f"text {row}" for row in range(ROWS)]))
    assert task.notes == ("Left out 1 columns that no party holds: note.",)


def test_a_column_that_cannot_be_used_is_left_out(save):
    path = save(day=[f"2020-01-{row % 28 + 1:02}" for row in range(ROWS)])
    assert "leave it out" in refusal(DataError, lambda: load(path, parties=2))
    task = load(path, parties=2, without=["day"])
    names = {column.source or column.name for features in task.features.values() for column in features.columns}
    assert names == {"age", "owner", "city", "visits"} and task.notes == ()
    source = json.loads(json.dumps(task.source))
    assert source["without"] == ["day"] and table(source.pop("table"), **source).source == task.source
    assert "without" not in load(save()).source  # the names of results known before stay


def test_a_frame_is_no_file():
    message = refusal(DataError, lambda: table(pl.DataFrame(customers()), label="default"))
    assert message.startswith("Expected the path of a CSV or Parquet file, got a DataFrame")


def test_a_table_without_inputs_is_refused(write):
    path = write("default\n" + "".join(f"{row % 2}\n" for row in range(ROWS)))
    assert "columns besides the label" in refusal(DataError, lambda: table(path, label="default"))


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
    message = refusal(ConfigError, lambda: load(save(), **options))
    assert words in message, message
