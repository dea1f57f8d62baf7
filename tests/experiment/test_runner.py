"""Outcomes are stored the moment they exist; what is done stays done, what failed is tried again."""

from concurrent.futures import BrokenExecutor, Executor, Future

import pytest

from cutlayer.errors import RunError
from cutlayer.experiment import runner
from cutlayer.experiment.runner import run_units
from cutlayer.experiment.store import Outcomes
from cutlayer.experiment.unit import Part, Unit

KEYS = {"first": ("a", "b"), "second": ("c",)}


@pytest.fixture
def units():
    return [Unit(data=name, parts=tuple(Part(key=key) for key in keys)) for name, keys in KEYS.items()]


@pytest.fixture
def done(monkeypatch):
    """The keys of the parts that were done, by a worker that says so and no more."""
    keys = []

    def work(unit):
        for part in unit.parts:
            keys.append(part.key)
            yield {"key": part.key, "status": "done"}

    monkeypatch.setattr(runner, "work", work)
    return keys


def test_a_second_call_does_nothing(units, done, tmp_path):
    for _ in range(2):
        run_units(units, Outcomes(tmp_path / "outcomes.jsonl"))
    assert done == ["a", "b", "c"] and list(Outcomes(tmp_path / "outcomes.jsonl")) == done


def test_one_worker_stores_each_part_before_it_begins_the_next(units, tmp_path, monkeypatch):
    path, stored = tmp_path / "outcomes.jsonl", []

    def work(unit):
        for part in unit.parts:
            stored.append(list(Outcomes(path)))
            yield {"key": part.key, "status": "done"}

    monkeypatch.setattr(runner, "work", work)
    seen = []
    run_units(units, Outcomes(path), progress=lambda done, total, text: seen.append((done, total)))
    assert stored == [[], ["a"], ["a", "b"]]
    assert seen == [(0, 3), (1, 3), (2, 3), (3, 3)]


def test_what_is_done_survives_what_stops_the_rest(units, tmp_path, monkeypatch):
    def work(unit):
        yield {"key": unit.parts[0].key, "status": "done"}
        raise KeyboardInterrupt

    monkeypatch.setattr(runner, "work", work)
    with pytest.raises(KeyboardInterrupt):
        run_units(units, Outcomes(tmp_path / "outcomes.jsonl"))
    assert list(Outcomes(tmp_path / "outcomes.jsonl")) == ["a"]


def test_what_failed_is_tried_again_and_what_was_refused_is_not(units, done, tmp_path):
    store = Outcomes(tmp_path / "outcomes.jsonl")
    store.add({"key": "a", "status": "failed"})
    store.add({"key": "c", "status": "does not apply"})
    run_units(units, store)
    assert done == ["a", "b"] and Outcomes(store.path)["a"]["status"] == "done"


def test_a_part_that_two_units_share_is_done_once(units, done, tmp_path):
    seen = []
    run_units([*units, *units], Outcomes(tmp_path / "o.jsonl"), progress=lambda done, total, text: seen.append(total))
    assert done == ["a", "b", "c"] and set(seen) == {3}


def test_a_worker_that_dies_is_named_and_nothing_is_lost(units, done, tmp_path):
    class Deadly(Executor):
        def submit(self, fn, /, unit):
            future = Future()
            if unit.data == "first":
                future.set_result(fn(unit))
            else:
                future.set_exception(BrokenExecutor("killed"))
            return future

    with pytest.raises(RunError, match=r"A worker died.*the same command goes on"):
        run_units(units, Outcomes(tmp_path / "outcomes.jsonl"), executor=Deadly())
    assert list(Outcomes(tmp_path / "outcomes.jsonl")) in ([], ["a", "b"])  # the first unit, if it came first
    run_units(units, Outcomes(tmp_path / "outcomes.jsonl"))
    assert sorted(Outcomes(tmp_path / "outcomes.jsonl")) == ["a", "b", "c"]
