import numpy as np
import pytest

from cutlayer.data.prepare import (
    balanced,
    by_frequency,
    class_numbers,
    codes,
    min_max,
    numbers,
    numbers_or_codes,
    plain_columns,
    read_delimited,
    standardise,
    take,
)
from cutlayer.data.task import ColumnKind
from cutlayer.errors import DataError


def test_reads_columns_by_header_or_by_names():
    table = read_delimited(b'"a"; b\n1;"x;y"\n\n2;z\n', delimiter=";")
    assert {name: column.tolist() for name, column in table.items()} == {"a": ["1", "2"], "b": ["x;y", "z"]}
    assert read_delimited(b"1,2\n", names=("p", "q"))["q"].tolist() == ["2"]
    assert read_delimited(b"a,b\n")["a"].tolist() == []


def test_refuses_ragged_rows_and_other_encodings():
    with pytest.raises(DataError, match="Expected 2 columns in row 2, got 3"):
        read_delimited(b"a,b\n1,2\n1,2,3\n")
    with pytest.raises(DataError, match="Expected a table of text"):
        read_delimited(b"a,b\n\xff\xfe,1\n")


def test_columns_become_numbers_or_codes():
    table = {"n": np.array(["1", "", "3.5"]), "c": np.array(["b", "a", "b"])}
    assert np.array_equal(numbers("n", table["n"]), [1, np.nan, 3.5], equal_nan=True)
    assert codes(table["c"])[0].tolist() == [1, 0, 1]
    assert numbers_or_codes("c", table["c"]).tolist() == [1, 0, 1]
    with pytest.raises(DataError, match="Expected numbers in column 'c'"):
        numbers("c", table["c"])
    with pytest.raises(DataError, match="Expected a column 'y', got n, c"):
        take(table, "y")


def test_labels_must_be_class_numbers():
    assert class_numbers({"y": np.array(["1", "0.0"])}, "y", 2).tolist() == [1, 0]
    with pytest.raises(DataError, match="whole numbers from 0 to 1 in column 'y'"):
        class_numbers({"y": np.array(["1", ""])}, "y", 2)


def test_frequency_codes_start_at_the_most_frequent():
    assert by_frequency(np.array(["b", "c", "c", "a", "b", "c"])).tolist() == [1, 0, 0, 2, 1, 0]


def test_scaling_by_all_or_by_some_rows():
    values = np.array([[0.0, 7.0], [4.0, 7.0], [8.0, 7.0]])
    assert min_max(values, -1, 1).tolist() == [[-1, -1], [0, -1], [1, -1]]
    assert min_max(values, rows=np.array([0, 1]))[:, 0].tolist() == [0, 1, 2]
    assert standardise(values, np.array([0, 2])).tolist() == [[-1, 0], [0, 0], [1, 0]]


def test_balancing_draws_as_many_rows_of_each_class():
    labels = np.array([0] * 9 + [1] * 3)
    rows = balanced(labels, np.random.default_rng(0))
    assert np.bincount(labels[rows]).tolist() == [3, 3]
    assert (np.diff(rows) > 0).all()


def test_only_columns_of_0_and_1_count_as_binary():
    values = np.array([[0, 0.5, 1], [1, 0, 1]])
    kinds = [column.kind for column in plain_columns(["two", "more", "constant"], values)]
    assert kinds == [ColumnKind.BINARY, ColumnKind.NUMERIC, ColumnKind.NUMERIC]
