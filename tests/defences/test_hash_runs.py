"""HashVFL in whole runs: bits on the wire, composition with other defences, resuming, and what it refuses."""

from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn.functional import one_hot

import cutlayer as cl
from cutlayer import training
from cutlayer.attacks.tools.shared_codes import shared_codes
from cutlayer.blocks.codebook import target_codes
from cutlayer.checkpoint import digest
from cutlayer.data.task import Features, Goal
from cutlayer.defence import Place
from cutlayer.defences import AbnormalCodes, GaussianNoise, Hash, MaxNorm
from cutlayer.message import Kind, Phase
from cutlayer.plan import Plan, assemble
from tests.helpers.hashing import RECIPE, Rogue, easy_task, here, train
from tests.helpers.interruption import Stop, stop_at
from tests.helpers.reachable import reachable, shows
from tests.helpers.small_task import bottom, make_task, top
from tests.helpers.toy import rng


def test_half_precision_gradients_arrive_as_halves():
    run, full = train(None, Hash(bits=4, gradients="float16")), train(None, Hash(bits=4))
    _, got, _ = run.transcript.channels["p0", "p1", Kind.GRADIENT, Phase.TRAIN].read()
    assert torch.equal(got, got.half().float()) and got.any()
    half_bytes, full_bytes = (r.to_json()["bytes"]["p1"]["received"] for r in (run, full))
    assert full_bytes == 2 * half_bytes
    payload = torch.tensor([[1 + 2.0**-12, 3.0]])
    assert Hash(gradients="float16").protect(payload, here(Place.GRADIENT)).tolist() == [[1, 3]]


@pytest.mark.parametrize("defence", [Hash(bits=5), Hash(bits=5, epsilon=2.0)])
def test_packed_and_plain_codes_train_the_same_bits(monkeypatch, defence):
    packed = train(None, defence)
    monkeypatch.setattr(Hash, "encoding", lambda self, place: None)
    plain = train(None, defence)
    assert packed.to_json()["models"] == plain.to_json()["models"] and packed.metrics == plain.metrics
    assert packed.to_json()["bytes"]["p1"]["sent"] < plain.to_json()["bytes"]["p1"]["sent"] / 30


def test_run_json_counts_what_crosses():
    """A bit where undefended training sends a float: exactly one in 32 bytes, since 8 bits fill a byte per row."""
    hashed, plain = train(None, Hash(bits=8)).to_json()["bytes"], train(None, width=8).to_json()["bytes"]
    rows = 2 * 120 + 30
    for name in ("p1", "p2"):
        assert hashed[name]["sent"] == rows and plain[name]["sent"] == 32 * rows
        assert hashed[name]["received"] == plain[name]["received"] == 2 * 120 * 8 * 4
    assert hashed["p0"]["received"] == 2 * rows


@pytest.mark.parametrize("label_party", ["p0", "server"])
@pytest.mark.parametrize("targets", ["run", "private", 7])
def test_three_parties_learn(label_party, targets):
    task = easy_task(3, label_party)
    run = cl.train(task, defences=[Hash(bits=6, targets=targets)], recipe=cl.Recipe(epochs=15, batch_size=32, lr=0.01))
    assert run.metrics["accuracy"] > 0.9
    _, sent, _ = run.view(label_party).channel(Kind.EMBEDDING, Phase.PREDICT, peer="p1").read()
    seed = run.session.label_party.setting.private_seed if targets == "private" else 0 if targets == "run" else targets
    codes = target_codes(3, 6, seed, *(["p1"] if targets == "private" else []))
    right = (sent == codes[task.labels[task.test]]).double().mean().item()
    assert right > 0.85  # codes come to be the class's target code


def test_private_targets_differ_per_party_and_are_not_reachable_for_it():
    run = train(None, Hash(bits=8, targets="private"), keep="all")
    secret = run.session.label_party.setting.private_seed
    books = {name: target_codes(3, 8, secret, name) for name in ("p1", "p2")}
    assert not torch.equal(books["p1"], books["p2"])
    assert not torch.equal(books["p1"], target_codes(3, 8, 0))
    for name, book in books.items():
        view = run.view(name)
        assert not shows(view, book) and not any(type(x) is int and x == secret for x in reachable(view))
        assert shared_codes(view.manifest) is None
        assert shows(view, run.task.features[name].values)  # the walk does find what is there
    penalty = run.session.label_party.penalties[0]
    labels = torch.tensor([0, 1])
    known = replace(here(labels=labels, classes=3), private_seed=secret)
    assert penalty.penalty(books["p1"][:2], known).item() == pytest.approx(0, abs=1e-6)
    assert penalty.penalty(books["p2"][:2], known).item() > 0.1


@pytest.mark.parametrize("step", [5, 9])
def test_an_interrupted_run_resumes_to_the_same_bits(tmp_path, monkeypatch, step):
    monkeypatch.setattr(training, "CHECKPOINT_SECONDS", 0.0)
    defences = (Hash(bits=4, epsilon=3.0, gradients="float16"), AbnormalCodes())
    plan = Plan(bottoms=bottom, top=top, recipe=cl.Recipe(epochs=3, batch_size=32), defences=defences)
    task = make_task(3, "p0")
    whole = cl.training.train_plan(task, plan, keep="all")
    with pytest.raises(Stop):
        cl.training.train_plan(task, plan, out=tmp_path / "cut", keep="all", progress=stop_at(step))
    resumed = cl.training.train_plan(task, plan, out=tmp_path / "cut", keep="all", resume=True)
    record, expected = resumed.to_json(), whole.to_json()
    assert all(record[key] == expected[key] for key in ("models", "bytes", "history", "accuracy", "flagged"))
    again = cl.run.Run.open(tmp_path / "cut", task, plan)
    assert {n: digest(m) for n, m in again.models.items()} == record["models"]


@pytest.mark.parametrize("defences", [(MaxNorm(),), (GaussianNoise(std=0.1, on="gradient"),), (MaxNorm(), MaxNorm())])
def test_it_composes_with_defences_of_gradients(defences):
    alone = train(None, Hash(bits=4)).to_json()["models"]
    for order in ((Hash(bits=4), *defences), (*defences, Hash(bits=4))):
        run = train(None, *order)
        assert run.to_json()["models"]["p1.bottom"] != alone["p1.bottom"]
        _, sent, _ = run.transcript.channels["p1", "p0", Kind.EMBEDDING, Phase.TRAIN].read()
        assert (sent.abs() == 1).all()


def test_noise_goes_before_hashing_not_after():
    train(None, GaussianNoise(std=0.1), Hash(bits=4))
    with pytest.raises(cl.ProtocolError, match=r"Expected a code of \+1 and -1 to pack.*put hash after other defences"):
        train(None, Hash(bits=4), GaussianNoise(std=0.1))


def test_a_class_without_training_rows():
    """It has a target code and an output, and nothing else changes; labels keep their numbers."""
    task = easy_task(2, "server")
    labels = task.labels.clone()
    labels[:120] = torch.where(labels[:120] == 1, 2, labels[:120])  # class 1 is left to the test rows
    shift = 3.0 * one_hot(labels, 4)
    features = {n: Features(torch.randn(150, 4, generator=rng(i)) + shift) for i, n in enumerate(task.features)}
    task = replace(task, labels=labels, features=features)
    assert set(labels[task.train].tolist()) == {0, 2} and 1 in labels[task.test]
    run = cl.train(task, defences=[Hash()], recipe=cl.Recipe(epochs=15, batch_size=32, lr=0.01))
    outputs, truth = run.predict(task.test), labels[task.test]
    assert outputs.shape == (30, 3)
    seen = truth != 1
    assert (outputs.argmax(dim=1)[seen] == truth[seen]).double().mean() > 0.9
    assert (outputs.argmax(dim=1) == 1).double().mean() < 0.1
    assert target_codes(3, 2, 0).shape == (3, 2)


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        (lambda rows: torch.ones(rows, 5), r"Expected codes of 4 bits from p1, got shape \(5,\)\.$"),
        (lambda rows: torch.ones(rows, 3), r"Expected codes of 4 bits from p1, got shape \(3,\)\.$"),
        (lambda rows: torch.full((rows, 4), 0.5), r"Expected codes of \+1 and -1 from p1, got other numbers\.$"),
        (lambda rows: torch.full((rows, 4), float("nan")), r"Expected codes of \+1 and -1 from p1, got other"),
        (lambda rows: torch.ones(rows - 1, 4), "Expected 32 rows from p1, got 31"),
    ],
)
@pytest.mark.parametrize("phase", [Phase.TRAIN, Phase.PREDICT])
def test_a_peer_that_sends_no_code_is_refused(payload, message, phase):
    task = make_task(3, "p0")
    session = assemble(task, Plan(defences=(Hash(bits=4),), recipe=RECIPE), lambda message: None)
    session.parties["p1"] = Rogue(session.parties["p1"], payload)
    with pytest.raises(cl.ProtocolError, match=message):
        session.train_epoch(0, task.train) if phase is Phase.TRAIN else session.predict(task.train[:32])


@pytest.mark.parametrize("defence", [Hash(bits=1), Hash(bits=1, sign=False), Hash(bits=1, consistency=False)])
def test_too_few_bits(defence):
    with pytest.raises(cl.ConfigError, match=r"^Expected at least 2 bits to tell 3 classes apart, got bits=1\.$"):
        train(None, defence)


def test_a_batch_of_one_row():
    with pytest.raises(cl.ConfigError, match=r"^Expected at least two rows in a training batch under batch norm, got"):
        cl.train(make_task(2, "p0"), defences=[Hash()], recipe=cl.Recipe(epochs=1, batch_size=1))


@pytest.mark.parametrize("bottoms", ["made", "given"])
@pytest.mark.parametrize("normalise", [True, False])
def test_regression(bottoms, normalise):
    options = {"bottoms": {f"p{i}": nn.Linear(4 + i, 4) for i in range(2)}} if bottoms == "given" else {}
    with pytest.raises(cl.ConfigError, match=r"^Expected classes to hash for, got a regression task; leave hash out"):
        cl.train(make_task(2, "p0", Goal.REGRESSION), defences=[Hash(normalise=normalise)], recipe=RECIPE, **options)


def test_a_bottom_of_another_width():
    given = {f"p{i}": nn.Linear(4 + i, 5) for i in range(2)}
    with pytest.raises(cl.ConfigError, match=r"^Expected a bottom that ends in 4 numbers, one per bit, got shape \(5,"):
        train(make_task(2, "p0"), Hash(bits=4), bottoms=given)
    with pytest.raises(cl.ProtocolError, match=r"^Expected codes of 4 bits from p1, got shape \(5,\)"):
        train(make_task(2, "p0"), Hash(bits=4, normalise=False), bottoms=given)


def test_divergence_does_not_hide_behind_codes():
    """Weights that are no numbers would otherwise be sent as -1, and the loss would stay finite."""
    given = {f"p{i}": nn.Linear(4 + i, 4) for i in range(2)}
    given["p1"].weight.data.fill_(float("nan"))
    with pytest.raises(cl.RunError, match=r"^Training diverged: an embedding is not a number; use a smaller --lr\.$"):
        train(make_task(2, "p0"), Hash(bits=4), bottoms=given)
