"""Outcomes in a file: appended line by line, read back by key, whatever a crash left behind."""

import json

import pytest

from cutlayer.errors import RunError
from cutlayer.experiment.store import Outcomes


def test_a_line_cut_short_does_not_swallow_the_next_one(tmp_path):
    path = tmp_path / "outcomes.jsonl"
    path.write_text('{"key": "a", "status": "done"}\n{"key": "b", "sta')
    store = Outcomes(path)
    assert list(store) == ["a"]
    store.add({"key": "b", "status": "done"})
    store.add({"key": "c", "status": "done"})
    assert list(Outcomes(path)) == ["a", "b", "c"]
    assert [json.loads(line)["key"] for line in path.read_text().splitlines() if line.endswith("}")] == ["a", "b", "c"]


def test_of_two_lines_with_one_key_the_later_counts(tmp_path):
    store = Outcomes(tmp_path / "new" / "outcomes.jsonl")
    for status, settled in (("failed", False), ("done", True)):
        store.add({"key": "a", "status": status})
        for reader in (store, Outcomes(store.path)):
            assert reader["a"]["status"] == status and reader.settled("a") is settled and not reader.settled("b")
    assert len(Outcomes(store.path)) == 1 and len(store.path.read_text().splitlines()) == 2


def test_a_file_of_another_version_is_refused(tmp_path):
    path = tmp_path / "paper.jsonl"
    path.write_text('{"job": {"data": "wine"}}\n')
    with pytest.raises(RunError, match=r"paper.jsonl, got a line of another version; move the file away"):
        Outcomes(path)
