"""Formats of files, what is taken as it is, and files that are refused."""

import gzip

import polars as pl
import pytest
import torch

from cutlayer.data.tables.table import table
from cutlayer.errors import DataError
from tests.helpers.customers import ROWS, column, customers, load, refusal


def test_names_are_trimmed_and_numbers_with_blanks_are_numbers(write):
    rows = "".join(f" {row}, x{row % 2},{row % 2}\n" for row in range(ROWS))
    task = table(write(f"age , city,default\n{rows}"), label="default", label_party="us", scaling="none")
    assert task.features["party1"].columns[0].name == "age"
    assert column(task, "party1", "age")[:3].tolist() == [0, 1, 2]


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


RECORDS = ", ".join(f'{{"age": "{67 + row}", "city": "Bonn {row}"}}' for row in range(50))


@pytest.mark.parametrize("content", [f"[{RECORDS}]", f"\n[ {RECORDS}]", '{"age": 67}\n{"age": 68}\n'])
def test_json_is_named_and_its_records_are_not_spilled(write, content):
    message = refusal(DataError, lambda: table(write(content, "c.json"), label="default"))
    assert "Expected a CSV or Parquet file, got JSON" in message and "67" not in message


def test_few_names_are_quoted_and_a_name_in_brackets_is_a_name(write):
    twice = ",".join([f"a{number}" for number in range(9)] * 2)
    message = refusal(DataError, lambda: table(write(f"{twice}\n"), label="default"))
    assert "got 'a0', 'a1', 'a2' and 6 more more than once" in message
    message = refusal(DataError, lambda: table(write(f"{'x' * 99},{'x' * 99}\n"), label="default"))
    assert "x" * 41 not in message
    rows = "".join(f"{row},{row * row},{row % 2}\n" for row in range(ROWS))
    assert table(write("[age],[visits],[default]\n" + rows), label="[default]").classes == ("0", "1")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "empty file"),
        ("\n\n", "empty file"),
        ("age,visits,default\n", "got none"),
        ("age,age,default\n1,2,3\n", "'age' more than once"),
        ("age,column1,,column3\n1,2,3,4\n", "'column3' more than once"),
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
    message = refusal(DataError, lambda: table(path, label="default"))
    assert words in message and ("customers.csv" in message)


def test_a_file_that_is_not_there_is_named(tmp_path):
    assert "nowhere.csv" in refusal(DataError, lambda: table(tmp_path / "nowhere.csv", label="y"))
    assert "found none" in refusal(DataError, lambda: table(tmp_path, label="y"))


def test_a_column_without_a_name_is_called_by_its_position(write):
    rows = "".join(f"{row},{row * row},a{row % 3},{row % 2},{row % 5}\n" for row in range(ROWS))
    pandas = write(f",visits,city,default,\n{rows}")
    task = table(pandas, label="default", parties={"bank": ["column1"], "shop": ["visits", "column5"]})
    assert [c.name for features in task.features.values() for c in features.columns] == ["column1", "visits", "column5"]
    assert task.notes[0] == (
        "2 columns have no name and are called by position: 'column1', 'column5'; "
        "if it only counts the rows, leave it out with --without column1."
    )
    index = table(pandas, label="default", without=["column1", "column5"])
    assert {c.source or c.name for features in index.features.values() for c in features.columns} == {"visits", "city"}
    assert table(pandas, label="default", id_column="column1").source["id_column"] == "column1"


def test_the_index_that_pandas_writes_is_noted(write):
    rows = "".join(f"{row},{row * row},{row % 2}\n" for row in range(ROWS))
    task = table(write(f" ,visits,default\n{rows}"), label="default")
    assert task.notes[0].startswith("A column has no name and is called by position: 'column1';")
