"""A job in words: its key, its unit of work, and outcomes in this process and in others."""

from dataclasses import replace

from cutlayer.experiment.runner import run_units
from cutlayer.experiment.store import Outcomes
from cutlayer.experiment.work import work
from cutlayer.papers.hashvfl import tables as hashvfl
from cutlayer.recipe import Milestones, Steps
from tests.helpers.tiny_job import TINY


def test_a_key_holds_what_is_not_at_its_default():
    job = replace(TINY, attacks=("norm-score", "pgd:bound=2"), seed=3)
    words = "data=wine:label_party=server bottom=mlp:hidden=8 top=mlp width=4 epochs=1 batch_size=32"
    assert job.key == f"{words} seed=3 attacks=norm-score;pgd:bound=2"


def test_the_learning_rate_falls_in_steps_or_at_milestones():
    schedule = TINY.unit().training.plan().recipe.schedule
    assert isinstance(schedule, Steps) and (schedule.every, schedule.factor) == (10, 0.1)
    schedule = replace(TINY, milestones=(3, 6)).unit().training.plan().recipe.schedule
    assert isinstance(schedule, Milestones) and (schedule.at, schedule.factor) == ((3, 6), 0.1)


def test_a_job_may_be_of_horizontal_learning():
    job = replace(
        TINY,
        data="digits:parties=1,label_party=server",
        optimiser="sgd",
        attacks=("decoder:pairs=50", "norm-score"),
        horizontal="clients=2,method=private-bottom",
    )
    (outcome,) = work(job.unit())
    assert 0 < outcome["metrics"]["worst_accuracy"] <= outcome["metrics"]["accuracy"]
    statuses = {name: [row["status"] for row in rows] for name, rows in outcome["attacks"].items()}
    assert statuses == {"decoder:pairs=50": ["done"], "norm-score": ["does not apply"]}


def test_two_workers_give_what_one_gives_and_one_that_fails_does_not_take_others_along(tmp_path):
    wanted, broken = [replace(TINY, seed=seed) for seed in (0, 1)], replace(TINY, data="no-such-data")
    here, there = Outcomes(tmp_path / "here.jsonl"), Outcomes(tmp_path / "there.jsonl")
    run_units([job.unit() for job in wanted], here)
    run_units([job.unit() for job in (broken, *wanted)], there, workers=2)
    for job in wanted:
        assert here[job.key]["metrics"] == there[job.key]["metrics"] and here[job.key]["status"] == "done"
    assert there[broken.key]["status"] == "failed" and "no-such-data" in there[broken.key]["reason"]


def test_tables_share_trainings():
    tables = hashvfl.tables(False)
    eight, seven = ({e.job for e in tables[t] if e.method == "hash" and e.setting.startswith("16 bits")} for t in "87")
    assert eight <= seven
    assert {e.job for e in tables["3"]} >= {e.job for e in tables["5"] if e.method == "hash"}
