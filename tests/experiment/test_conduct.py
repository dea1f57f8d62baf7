"""Conducting a study: cells are done once, in any number of processes, and a crash costs only what was under way."""

import json
import signal
import subprocess
import sys
import time

import pytest

from cutlayer.errors import ConfigError
from cutlayer.experiment import unit, work
from cutlayer.experiment.account import notes_of
from cutlayer.experiment.conduct import OUTCOMES, conduct
from cutlayer.experiment.store import Outcomes
from tests.helpers.small_study import ATTACKS, make, timeless


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return conduct(make(), tmp_path_factory.mktemp("whole") / "audit", workers=1)


def test_every_cell_has_a_line(whole):
    cells = {(row["defence"], row["strength"], row["attack"], row["seed"]) for row in whole.rows}
    assert len(cells) == 2 * 3 * 2 and whole.finished
    done = [row for row in whole.rows if row["status"] == "done"]
    assert {row["attack"] for row in done} == {ATTACKS[0]}
    assert all(0 <= row["value"] <= 1 and row["paper"] and row["bytes"] > 0 for row in done)
    reasons = {row["attack"]: row["reason"] for row in whole.rows if row["status"] == "does not apply"}
    assert reasons["norm-score"] == "binary-only"


def test_what_a_training_says_is_in_the_record(whole, tmp_path):
    assert whole.facts["setup_notes"] == {}
    private = make(defences=("dp-sgd:noise=3.3",), attacks=ATTACKS[1:2])
    (notes,) = conduct(private, tmp_path / "audit", workers=1).facts["setup_notes"].values()
    assert len(notes) == 1 and "epsilon" in notes[0]  # both seeds say the same


def test_notes_that_differ_have_their_seed():
    notes = {0: ["epsilon 1", "diverged: 5"], 1: ["epsilon 1", "diverged: 7"], 2: ["epsilon 1"]}
    assert notes_of(notes) == ["epsilon 1", "seed 0: diverged: 5", "seed 1: diverged: 7"]


def test_two_processes_give_the_same(whole, tmp_path):
    assert timeless(conduct(make(), tmp_path / "audit", workers=2)) == timeless(whole)


def test_trainings_are_shared_and_nothing_is_done_twice(tmp_path, monkeypatch):
    trained = []
    original = unit.train_plan

    def counted(task, plan, **options):
        trained.append(plan.seed)
        return original(task, plan, **options)

    monkeypatch.setattr(unit, "train_plan", counted)
    conduct(make(), tmp_path / "audit", workers=1)
    assert len(trained) == 4  # defences x seeds
    conduct(make(), tmp_path / "audit", workers=1)
    assert len(trained) == 4
    record = conduct(make(attacks=(*ATTACKS, "direction-score")), tmp_path / "audit", workers=1)
    assert len(trained) == 8 and len({row["attack"] for row in record.rows}) == 4


def test_a_cell_does_not_depend_on_which_others_ran(whole, tmp_path):
    alone = conduct(make(attacks=ATTACKS[:1]), tmp_path / "audit", workers=1)
    assert timeless(alone) == [row for row in timeless(whole) if row["attack"] == ATTACKS[0]]


def test_a_failure_stays_in_its_cell(tmp_path, monkeypatch):
    original = work.attack_run

    def failing(run, attacks, **options):
        if attacks[0].name == "norm-score":
            raise ZeroDivisionError("on purpose")
        return original(run, attacks, **options)

    monkeypatch.setattr(work, "attack_run", failing)
    record = conduct(make(seeds=(0,)), tmp_path / "audit", workers=1)
    failed = [row for row in record.rows if row["status"] == "failed"]
    assert {row["reason"] for row in failed} == {"ZeroDivisionError: on purpose"} and len(failed) == 2
    assert sum(row["status"] == "done" for row in record.rows) == 2


def test_a_defence_that_cannot_be_trained_says_so(tmp_path):
    record = conduct(make(defences=("none", "hash:bits=1"), seeds=(0,)), tmp_path / "audit", workers=1)
    rows = [row for row in record.rows if row["defence"] == "hash"]
    assert all(row["status"] != "missing" and (row["reason"] or row["value"] is not None) for row in rows)


def test_killed_in_the_middle_it_goes_on_to_the_same(whole, tmp_path):
    study, folder = make(), tmp_path / "audit"
    (tmp_path / "study.json").write_text(json.dumps(study.to_json()))
    code = (
        "import json, sys; from pathlib import Path; from cutlayer.experiment.conduct import conduct;"
        "from cutlayer.experiment.study import study_again;"
        "conduct(study_again(json.loads(Path('study.json').read_text())), Path('audit'), workers=1)"
    )
    process = subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path)
    deadline = time.monotonic() + 60
    while not len(Outcomes(folder / OUTCOMES)) >= 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert 2 <= len(Outcomes(folder / OUTCOMES)) < 12  # each cell was stored when it was done
    assert timeless(conduct(study, folder, workers=1)) == timeless(whole)


def test_folders_of_others_are_refused(tmp_path):
    conduct(make(seeds=(0,)), tmp_path / "audit", workers=1)
    with pytest.raises(ConfigError, match=r"of another study \(epochs\)"):
        conduct(make(epochs=4), tmp_path / "audit")
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").write_text("")
    with pytest.raises(ConfigError, match="holds something else than a study"):
        conduct(make(), tmp_path / "photos")
