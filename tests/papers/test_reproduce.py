"""Tables: the paper's value beside ours, with an interval over seeds; what fails is raised when the rest is done."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

import cutlayer as cl
from cutlayer.experiment.store import Outcomes
from cutlayer.papers import reproduce as module
from cutlayer.papers.entry import Entry
from cutlayer.papers.hashvfl import tables as hashvfl
from cutlayer.papers.reproduce import reproduce, row, save, tables_of
from tests.helpers.tiny_job import TINY


def outcome(accuracy, attacks=None):
    return {"status": "done", "metrics": {"accuracy": accuracy}, "attacks": attacks or {}, "checks": {}}


def test_a_row_has_the_papers_value_ours_the_gap_and_the_interval():
    entry = Entry("2", "wine", "hash", "4 bits", TINY, paper=90.0)
    outcomes = {replace(TINY, seed=seed).key: outcome(accuracy) for seed, accuracy in ((0, 0.92), (1, 0.94))}
    line = row(entry, [0, 1, 2], outcomes)
    assert line["ours"] == pytest.approx(93) and line["gap"] == pytest.approx(3) and line["seeds"] == 2
    assert line["low"] == pytest.approx(93 - 12.7062, abs=1e-3)  # t(0.975, 1) = 12.706, sd/sqrt(2) = 1
    assert row(entry, [5], outcomes)["ours"] is None


def test_calibrated_averaged_performance_by_hand():
    """The mean over a sweep of accuracy times error, by one attack or by the strongest; a missing job leaves none."""
    sweep = tuple(replace(TINY, defence=f"gaussian-noise:std={std}", attacks=("decoder", "pgd")) for std in ("1", "2"))
    outcomes = {}
    for job, accuracy, errors in zip(sweep, (0.9, 0.5), ((0.1, 0.3), (0.6, 0.2)), strict=True):
        decoder = {"status": "done", "metric": "mse", "value": errors[0], "victim": "party1"}
        pgd = {"status": "done", "metric": "accuracy", "value": 1 - errors[1], "victim": "server"}
        outcomes[job.key] = outcome(accuracy, {"decoder": [decoder], "pgd": [pgd]})
    for name, expected in (("decoder", 0.195), ("pgd", 0.185), ("strongest", 0.095)):
        entry = Entry("4", "wine", "noise", "", sweep[0], f"cap:{name}", 0.1, sweep=sweep)
        line = row(entry, [0], outcomes)
        assert (line["ours"], line["gap"]) == (pytest.approx(expected), pytest.approx(expected - 0.1))
    assert row(entry, [1], outcomes)["ours"] is None


def test_what_fails_is_raised_when_the_rest_is_done_and_is_tried_again(tmp_path, monkeypatch):
    broken = replace(TINY, data="no-such-data")
    entries = [Entry("2", "wine", "hash", "", job) for job in (broken, TINY)]
    monkeypatch.setattr(module, "tables_of", lambda paper, quick: {"2": entries})
    for _ in range(2):
        with pytest.raises(cl.RunError, match=r"1 of 2 trainings failed, such as data=no-such-data .*Unknown dataset"):
            reproduce("hashvfl", folder=tmp_path)
    store = Outcomes(tmp_path / "paper.jsonl")
    assert store[TINY.key]["status"] == "done" and not store.settled(broken.key)
    shown = reproduce("hashvfl", folder=tmp_path, run=False)["2"]
    assert shown[0]["ours"] is None and shown[1]["ours"] > 0


def test_a_paper_is_found_by_its_name():
    assert set(tables_of("fedadob-horizontal", True)) == {"3", "figure 3"}
    with pytest.raises(cl.ConfigError, match="Unknown paper 'hash'"):
        tables_of("hash", True)


def test_an_unknown_dataset_is_refused_and_a_table_without_the_dataset_is_left_out(tmp_path):
    with pytest.raises(cl.ConfigError, match="Unknown dataset 'mnits'"):
        reproduce("hashvfl", datasets=["mnits"], folder=tmp_path, run=False)
    with pytest.raises(cl.ConfigError, match="found none: run `cutlayer reproduce hashvfl` first"):
        reproduce("hashvfl", datasets=["mnist"], folder=tmp_path, run=False)
    stored = Path(__file__).parents[2] / "results" / "hashvfl"
    tables = reproduce("hashvfl", datasets=["mnist"], folder=stored, run=False)
    assert {row["seeds"] for row in tables["2"]} == {3}  # all that are stored
    assert "figure 4" not in tables and "2" in tables  # the paper draws it for other datasets


def test_quick_digits_end_to_end(tmp_path, monkeypatch):
    job = hashvfl.job
    monkeypatch.setattr(hashvfl, "job", lambda *words: replace(job(*words), attacks=()))  # those of other tables
    rows = reproduce("hashvfl", tables=["6"], datasets=["digits"], quick=True, folder=tmp_path)
    values = {r["method"]: r["ours"] for r in rows["6"]}
    assert len(values) == 5 and all(r["seeds"] == 1 for r in rows["6"])
    assert values["mean distance, correct"] < values["mean distance, error"]
    assert values["false alarms, %"] < values["detected, code of class 0, %"]
    (path,) = save(rows, tmp_path, "cutlayer reproduce hashvfl --table 6")
    assert path.name == "table-6.csv" and path.read_text().startswith("# cutlayer reproduce hashvfl --table 6\n")
    lines = (tmp_path / "quick.jsonl").read_text().splitlines()
    assert all(json.loads(line)["metrics"]["accuracy"] > 0.5 for line in lines) and len(lines) == 2


def test_unknown_paper_and_table(tmp_path):
    with pytest.raises(cl.ConfigError, match="Unknown paper 'hashfvl'"):
        reproduce("hashfvl", folder=tmp_path)
    with pytest.raises(cl.ConfigError, match="Unknown table '99'"):
        reproduce("hashvfl", tables=["99"], folder=tmp_path)
