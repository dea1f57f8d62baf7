"""Run folders: written whole or not at all, read back exactly, resumed bit for bit."""

import errno
import json
import re
from dataclasses import replace

import pytest
import torch

import cutlayer as cl
from cutlayer import checkpoint, training
from cutlayer.models.named import bottom as bottom_named
from cutlayer.plan import Plan
from cutlayer.run import Run
from cutlayer.training import train_plan
from cutlayer.transcript import Transcript
from tests.helpers.interruption import Stop, stop_at
from tests.helpers.small_task import bottom, make_task, top

RECIPE = cl.Recipe(epochs=4, batch_size=32)
NOISE = (cl.defences.GaussianNoise(std=0.1),)
PLAN = Plan(bottoms=bottom, top=top, width=6, recipe=RECIPE, seed=3, defences=NOISE)


@pytest.fixture
def task():
    return make_task(3, "p0")


def test_a_run_folder_comes_back_as_it_was(task, tmp_path):
    run = train_plan(task, PLAN, out=tmp_path / "run")
    record = json.loads((tmp_path / "run/run.json").read_text())
    assert {"accuracy", "seconds", "bytes", "models", "task", "plan", "history", "versions"} <= set(record)
    assert sorted(p.name for p in (tmp_path / "run").iterdir()) == ["models", "run.json", "transcript"]
    again = Run.open(tmp_path / "run", task, PLAN)
    assert again.to_json()["models"] == record["models"] == run.to_json()["models"]
    assert again.metrics == run.metrics and again.history == run.history
    assert again.transcript.traffic() == run.transcript.traffic()
    first, second = (r.transcript.channels["p1", "p0", cl.Kind.EMBEDDING, cl.Phase.TRAIN] for r in (run, again))
    assert torch.equal(first.read()[1], second.read()[1])


@pytest.mark.parametrize("keep", ["last", "all"])
@pytest.mark.parametrize("step", [5, 9, 15, 16])
def test_an_interrupted_run_resumes_to_the_same_bits(task, tmp_path, monkeypatch, keep, step):
    """Dropout, batch norm, noise, momentum and the transcript all go on where they were."""
    monkeypatch.setattr(training, "CHECKPOINT_SECONDS", 0.0)
    whole = train_plan(task, PLAN, out=tmp_path / "whole", keep=keep)
    with pytest.raises(Stop):
        train_plan(task, PLAN, out=tmp_path / "cut", keep=keep, progress=stop_at(step))
    with pytest.raises(cl.RunError, match=r"unfinished.*--resume"):
        Run.open(tmp_path / "cut", task, PLAN)
    resumed = train_plan(task, PLAN, out=tmp_path / "cut", keep=keep, resume=True)
    assert resumed.to_json()["models"] == whole.to_json()["models"]
    assert resumed.metrics == whole.metrics and resumed.history == whole.history
    for address, channel in whole.transcript.channels.items():
        other = resumed.transcript.channels[address]
        assert all(torch.equal(a, b) for a, b in zip(channel.read(), other.read(), strict=True)), address
    assert resumed.transcript.traffic() == whole.transcript.traffic()


@pytest.mark.parametrize("keep", ["last", "all"])
def test_a_crash_after_the_last_epoch_loses_nothing(task, tmp_path, monkeypatch, keep):
    monkeypatch.setattr(training, "CHECKPOINT_SECONDS", 0.0)
    whole = train_plan(task, PLAN, keep=keep)
    with monkeypatch.context() as patch, pytest.raises(Stop):
        patch.setattr(Run, "save", lambda run, folder: (_ for _ in ()).throw(Stop()))
        train_plan(task, PLAN, out=tmp_path / "cut", keep=keep)
    resumed = train_plan(task, PLAN, out=tmp_path / "cut", keep=keep, resume=True)
    assert resumed.to_json()["models"] == whole.to_json()["models"]
    for address, channel in whole.transcript.channels.items():
        assert torch.equal(channel.read()[1], resumed.transcript.channels[address].read()[1])


def test_early_stopping_resumes_too(task, tmp_path, monkeypatch):
    monkeypatch.setattr(training, "CHECKPOINT_SECONDS", 0.0)
    task = task.hold_out(0.25, cl.rng.generator(0))
    recipe = cl.Recipe(epochs=40, batch_size=16, lr=0.05, patience=3)
    plan = Plan(bottoms=bottom, top=top, recipe=recipe)
    whole = train_plan(task, plan)
    stop = (len(whole.history) - 2) * 6 + 1  # after the best epoch
    with pytest.raises(Stop):
        train_plan(task, plan, out=tmp_path / "cut", progress=stop_at(stop))
    resumed = train_plan(task, plan, out=tmp_path / "cut", resume=True)
    assert resumed.to_json()["models"] == whole.to_json()["models"] and resumed.history == whole.history


def test_resuming_with_other_options_is_refused(task, tmp_path):
    with pytest.raises(Stop):
        train_plan(task, PLAN, out=tmp_path / "run", progress=stop_at(6))
    for changes, named in (
        ({"seed": 4}, "seed"),
        ({"width": 5}, "width"),  # weights of another shape
        ({"recipe": replace(RECIPE, lr=0.5, epochs=9), "defences": ()}, "defences, epochs, lr"),
    ):
        with pytest.raises(cl.RunError, match=f"they differ in {named}[.]"):
            train_plan(task, replace(PLAN, **changes), out=tmp_path / "run", resume=True)
    other = replace(task, source={"dataset": "another"})
    with pytest.raises(cl.RunError, match=r"they differ in dataset[.]"):
        train_plan(other, PLAN, out=tmp_path / "run", resume=True)


def test_nothing_to_resume(task, tmp_path):
    with pytest.raises(cl.RunError, match="Expected a checkpoint"):
        train_plan(task, PLAN, out=tmp_path / "none", resume=True)
    train_plan(task, PLAN, out=tmp_path / "done")
    with pytest.raises(cl.ConfigError, match="finished already"):
        train_plan(task, PLAN, out=tmp_path / "done", resume=True)


def test_an_existing_folder_is_never_touched(task, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/thesis.txt").write_text("years of work")
    with pytest.raises(cl.ConfigError, match="exists already"):
        train_plan(task, PLAN, out=tmp_path / "mine")
    assert [p.name for p in (tmp_path / "mine").iterdir()] == ["thesis.txt"]


def test_a_full_disk_keeps_the_last_complete_checkpoint(task, tmp_path, monkeypatch):
    monkeypatch.setattr(training, "CHECKPOINT_SECONDS", 0.0)
    calls, real = [], checkpoint.save_file

    def save_file(state, path):
        calls.append(path)
        if len(calls) > 4:  # three parties fit, then the disk is full in the middle of the second checkpoint
            path.write_bytes(b"half")
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        real(state, path)

    monkeypatch.setattr(checkpoint, "save_file", save_file)
    with pytest.raises(cl.RunError, match=r"disk is full.*--resume"):
        train_plan(task, PLAN, out=tmp_path / "run")
    assert not (tmp_path / "run/checkpoint.new").exists()
    monkeypatch.setattr(checkpoint, "save_file", real)
    resumed = train_plan(task, PLAN, out=tmp_path / "run", resume=True)
    assert resumed.to_json()["models"] == train_plan(task, PLAN).to_json()["models"]


def test_the_checkpoint_before_is_used_if_the_newest_was_not_renamed(task, tmp_path, monkeypatch):
    monkeypatch.setattr(training, "CHECKPOINT_SECONDS", 0.0)
    with pytest.raises(Stop):
        train_plan(task, PLAN, out=tmp_path / "run", progress=stop_at(9))
    (tmp_path / "run/checkpoint").rename(tmp_path / "run/checkpoint.old")
    resumed = train_plan(task, PLAN, out=tmp_path / "run", resume=True)
    assert resumed.to_json()["models"] == train_plan(task, PLAN).to_json()["models"]


def test_a_changed_model_file_is_noticed(task, tmp_path):
    train_plan(task, PLAN, out=tmp_path / "run")
    models = tmp_path / "run/models"
    other = train_plan(task, Plan(bottoms=bottom, top=top, width=6, recipe=RECIPE, seed=9), out=tmp_path / "other")
    (models / "p1.bottom.safetensors").write_bytes((tmp_path / "other/models/p1.bottom.safetensors").read_bytes())
    with pytest.raises(cl.RunError, match="changed since the run"):
        Run.open(tmp_path / "run", task, PLAN)
    (models / "p1.bottom.safetensors").write_bytes(b"nonsense")
    with pytest.raises(cl.RunError, match="Could not load"):
        Run.open(tmp_path / "run", task, PLAN)
    (models / "p1.bottom.safetensors").unlink()
    with pytest.raises(cl.RunError, match="run is damaged"):
        Run.open(tmp_path / "run", task, PLAN)
    assert other.metrics


def test_early_stopping_restores_the_best_epoch(task):
    task = task.hold_out(0.25, cl.rng.generator(0))
    recipe = cl.Recipe(epochs=40, batch_size=16, lr=0.05, patience=3)
    run = cl.train(task, bottoms=bottom, top=top, recipe=recipe)
    losses = [record["valid_loss"] for record in run.history]
    best = min(range(len(losses)), key=losses.__getitem__)
    assert len(losses) < 40 and len(losses) == best + 1 + 3
    now = cl.party.loss_of(run.session.predict(task.valid), task.labels[task.valid])
    assert float(now) == pytest.approx(losses[best], rel=1e-6)


def test_divergence_is_told_in_one_sentence(task):
    with pytest.raises(cl.RunError, match="Training diverged in epoch"):
        cl.train(task, recipe=cl.Recipe(batch_size=32, optimiser=cl.Optimiser.SGD, lr=1e20))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"recipe": cl.Recipe(batch_size=500)}, "at least one batch of 500 training rows, got 120"),
        ({"recipe": cl.Recipe(batch_size=32, patience=2)}, "validation part"),
        ({"bottoms": {"p0": torch.nn.Linear(4, 2)}}, "bottom model for party 'p1'"),
        ({"device": "cuda"}, "not available here"),
        ({"width": 0}, "width=0"),
        ({"epochs": 0}, "epochs=0"),
        ({"epochs": "3"}, "Expected epochs='3' to be a whole number."),
        ({"epochs": 1.5}, "Expected epochs=1.5 to be a whole number."),
        ({"epochs": True}, "Expected epochs=True to be a whole number."),
        ({"seed": "0"}, "Expected seed='0' to be a whole number."),
        ({"seed": "1"}, "Expected seed='1' to be a whole number."),
        ({"cut": "sum"}, r"Expected cut to be an object such as cl.Sum\(\), got 'sum'."),
        ({"recipe": {"epochs": 3}}, "Expected recipe to be an object such as .*, got a dict."),
        ({"defences": "max-norm"}, "Expected defences to be a list of objects, such as .*, got 'max-norm'."),
        ({"defences": ["max-norm"]}, r"such as cl.defences.MaxNorm\(\), got 'max-norm'."),
        ({"defences": cl.defences.MaxNorm()}, r"such as \[cl.defences.MaxNorm\(\)\], got a MaxNorm."),
        ({"defences": [cl.defences.MaxNorm]}, "got the class MaxNorm."),
        ({"defences": {"none": []}}, "Expected defences to be a list of objects, .* got a dict."),
    ],
)
def test_bad_arguments(task, options, message):
    if options.get("device") == "cuda" and torch.cuda.is_available():
        options = {"device": "cuda:99"}
        message = ""
    with pytest.raises(cl.CutlayerError, match=message):
        cl.train(task, **{"recipe": cl.Recipe(batch_size=32), **options})


def test_a_path_is_no_task():
    with pytest.raises(cl.ConfigError, match=r"Expected task to be .* cl.data.table.*, got 'customers.csv'."):
        cl.train("customers.csv")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: cl.data.digits(parties="2"), "Expected parties='2' to be a whole number."),
        (lambda: cl.data.digits(seed=None), "Expected seed=None to be a whole number."),
        (lambda: cl.data.digits(limit=9.5), "Expected limit=9.5 to be a whole number."),
        (lambda: cl.defences.GaussianNoise(std="1"), "Expected std='1' to be a number."),
        (lambda: cl.defences.Sparsification(share=True), "Expected share=True to be a number."),
        (lambda: cl.attacks.ModelCompletion(labels="10"), "Expected labels='10' to be a whole number."),
        (lambda: cl.attacks.ModelCompletion(labels=10.5), "Expected labels=10.5 to be a whole number."),
    ],
)
def test_numbers_of_another_type_are_refused(make, message):
    with pytest.raises(cl.ConfigError, match=re.escape(message)):
        make()


def test_modules_passed_in_are_not_changed(task):
    modules = {name: bottom(features, 6) for name, features in task.features.items()}
    before = {name: checkpoint.digest(module) for name, module in modules.items()}
    cl.train(task, bottoms=modules, recipe=RECIPE)
    assert {name: checkpoint.digest(module) for name, module in modules.items()} == before


def test_the_global_random_state_is_left_alone(task):
    state = torch.get_rng_state()
    cl.train(task, bottoms=bottom, top=top, recipe=RECIPE, defences=NOISE)
    assert torch.equal(torch.get_rng_state(), state)


def test_a_run_that_diverged_says_so_and_can_be_attacked(task, tmp_path):
    """VFLDefender as printed descends a loss without a bottom: finite, and far above that of knowing nothing."""
    recipe = cl.Recipe(epochs=12, batch_size=32, lr=0.1)
    diverging = Plan(bottoms=bottom, top=top, recipe=recipe, defences=(cl.defences.VFLDefender(),))
    run = train_plan(task, diverging, out=tmp_path / "run")
    (note,) = json.loads((tmp_path / "run/run.json").read_text())["notes"]
    assert note.startswith("Training diverged from epoch") and "knowing nothing costs 1.1" in note
    assert Run.open(tmp_path / "run", task, diverging).notes() == run.notes() == [note]
    assert len(run.view("p1").channels)


def test_with_early_stopping_what_came_after_the_best_epoch_does_not_count(task):
    plan = Plan(bottoms=bottom, top=top, recipe=cl.Recipe(epochs=1, batch_size=32, patience=2))
    run = Run(task, plan, training.assemble(task, plan, print), Transcript())
    run.history = [{"loss": loss, "valid_loss": loss} for loss in (1.0, 0.9, 1e5)]
    assert run.notes() == []
    run.history = run.history[2:]
    assert "diverged from epoch 0" in run.notes()[0]


@pytest.mark.parametrize(
    "changes",
    [
        {"defences": NOISE},
        {"defences": (cl.defences.Passport(),), "bottoms": bottom_named("mlp")},
        {"defences": (cl.defences.Hash(bits=6), cl.defences.AbnormalCodes(distance=0))},
    ],
    ids=["noise", "passports", "flags"],
)
def test_looking_at_a_run_changes_nothing(task, changes):
    """Two views hold the same messages, and predictions after them are those of a run that nobody looked at."""
    run, untouched = (train_plan(task, replace(PLAN, **changes)) for _ in range(2))
    views = [run.view("p0"), run.view("p0", predict=task.train[:5]), run.view("p0")]
    for channel, again in zip(views[0].channels, views[2].channels, strict=True):
        assert (channel.sender, channel.receiver, channel.kind) == (again.sender, again.receiver, again.kind)
        assert all(torch.equal(a, b) for a, b in zip(channel.read()[:2], again.read()[:2], strict=True)), channel.kind
    assert run.to_json()["notes"] == untouched.to_json()["notes"]
    assert run.to_json().get("flagged") == untouched.to_json().get("flagged")
    assert all(party.bottom.training is False for party in run.session.parties.values())
    assert torch.equal(run.predict(task.test), untouched.predict(task.test))
