"""Binarised split learning: its penalty by hand, weights of two values that learn, and run folders."""

from dataclasses import replace
from math import exp

import pytest
import torch
from scipy.sparse import csr_matrix
from torch import nn

import cutlayer as cl
import cutlayer.defences as package
from cutlayer.blocks.sparse import SparseRows
from cutlayer.checkpoint import digest
from cutlayer.data.task import Goal
from cutlayer.defence import Defence, Place, Role, Setting, Subject
from cutlayer.defences import BinarisedSplit
from cutlayer.metrics.distance import distance_correlation
from cutlayer.plan import Plan
from cutlayer.rng import Stream
from cutlayer.run import Run
from cutlayer.spec import parse
from cutlayer.wire import Encoding
from tests.helpers import distances
from tests.helpers.hashing import easy_task, here, train
from tests.helpers.small_task import bottom, make_task, top
from tests.helpers.toy import draws, rng

BOTTOM = Setting("p1", Role.FEATURE_PARTY, Subject.BOTTOM, 3, draws(), 0)


def binarised(*layers):
    with Stream(2, "layers").scope():
        return BinarisedSplit(variant="original").model(nn.Sequential(*(make() for make in layers)), BOTTOM)


def test_the_penalty_by_hand():
    """|v - h|^2: row (1.5, -3) gives 0.25 + 4, row (0, -0.5) gives 1 + 0.25; the mean of 4.25 and 1.25 is 2.75."""
    values = torch.tensor([[1.5, -3.0], [0.0, -0.5]], requires_grad=True)
    term = BinarisedSplit().penalty(values, here())
    term.backward()
    assert term.item() == pytest.approx(2.75)
    assert values.grad.flatten().tolist() == pytest.approx([0.5, -2, -1, 0.5])  # 2 (v - h) / 2 rows
    assert BinarisedSplit(weight=0.5).penalty(values, here()).item() == pytest.approx(1.375)


def test_only_the_feature_party_adds_it_and_the_original_has_none():
    values = torch.tensor([[1.5, -3.0], [0.0, -0.5]])
    assert BinarisedSplit().penalty(values, here(labels=torch.tensor([0, 1]))) is None
    assert BinarisedSplit(variant="original").penalty(values, here()) is None


def test_what_is_sent():
    values = torch.tensor([[0.0, -0.2, 7.0]])
    assert BinarisedSplit().protect(values, here()).tolist() == [[1, -1, 1]]
    assert BinarisedSplit().protect(values, here(Place.GRADIENT)) is values
    assert BinarisedSplit().encoding(Place.EMBEDDING) is Encoding.BITS
    noisy = BinarisedSplit(epsilon=2.0).protect(torch.full((500_000, 2), 5.0), here())
    assert (noisy.abs() == 1).all()
    assert (noisy < 0).double().mean().item() == pytest.approx(exp(-1) / 2, abs=0.002)


def test_the_extended_variant_ends_in_batch_norm_and_keeps_its_weights():
    model = BinarisedSplit(bits=4).model(nn.Linear(3, 4), BOTTOM)
    assert isinstance(model[1], nn.BatchNorm1d) and len(model[0].weight.unique()) == 12
    tall = nn.Linear(3, 4)
    assert BinarisedSplit(bits=4).model(tall, replace(BOTTOM, subject=Subject.TOP)) is tall


def test_weights_have_two_values_and_stand_for_real_ones():
    model = binarised(lambda: nn.Conv2d(1, 3, 3), nn.Flatten, lambda: nn.Linear(12, 4))
    for layer in (model[0], model[2]):
        real = layer.parametrizations.weight.original
        size = real.abs().mean()
        assert len(real.unique()) == real.numel()
        assert layer.weight.unique().tolist() == pytest.approx([-size.item(), size.item()])
        assert torch.equal(layer.weight > 0, real >= 0)


def test_activations_have_two_values():
    model = binarised(lambda: nn.Linear(3, 5), nn.ReLU, lambda: nn.Linear(5, 4), nn.Tanh)
    values = torch.randn(10, 3, generator=rng())
    assert model[:2](values).unique().tolist() == [-1, 1] and model(values).unique().tolist() == [-1, 1]


def test_binary_weights_receive_gradients_by_hand():
    """y = s sign(w) x with s = mean |w| held fixed: dy/dw = s x, straight through."""
    model = binarised(lambda: nn.Linear(3, 1, bias=False))
    real = model[0].parametrizations.weight.original
    model(torch.tensor([[2.0, -1.0, 0.5]])).sum().backward()
    size = real.abs().mean().item()
    assert real.grad.flatten().tolist() == pytest.approx([2 * size, -size, 0.5 * size])


def test_training_moves_the_weights_and_keeps_them_binary():
    run = train(
        None, BinarisedSplit(bits=4, variant="original"), bottoms=lambda f, width: cl.plan.default_bottom(f, width)
    )
    start = cl.plan.assemble(run.task, run.plan, lambda message: None)
    for name in ("p0", "p1", "p2"):
        trained, fresh = (s.parties[name].modules["bottom"] for s in (run.session, start))
        linear = [m for m in trained.modules() if isinstance(m, nn.Linear)]
        before = [m for m in fresh.modules() if isinstance(m, nn.Linear)]
        assert len(linear) == 2 and all(len(layer.weight.unique()) == 2 for layer in linear)
        for layer, original in zip(linear, before, strict=True):
            assert not torch.equal(layer.parametrizations.weight.original, original.parametrizations.weight.original)


@pytest.mark.parametrize("variant", ["extended", "original"])
def test_it_learns(variant):
    recipe = cl.Recipe(epochs=20, batch_size=32, lr=0.02)
    run = cl.train(easy_task(), defences=[BinarisedSplit(bits=8, variant=variant)], recipe=recipe)
    assert run.metrics["accuracy"] > 0.8


@pytest.mark.parametrize("variant", ["extended", "original"])
def test_a_run_folder_comes_back_as_it_was(tmp_path, variant):
    defence = parse(f"binarised-split:bits=4,variant={variant}", package, Defence, "defence")
    plan = Plan(bottoms=bottom, top=top, recipe=cl.Recipe(epochs=2, batch_size=32), defences=(defence,))
    task = make_task(3, "p0")
    run = cl.training.train_plan(task, plan, out=tmp_path / "run")
    again = Run.open(tmp_path / "run", task, plan)
    assert {n: digest(m) for n, m in again.models.items()} == run.to_json()["models"]
    assert torch.equal(again.predict(task.test), run.predict(task.test))
    name = next(iter(again.session.parties["p1"].modules["bottom"].state_dict()))
    assert ("parametrizations" in name or "bias" in name) == (variant == "original")


@pytest.mark.parametrize(("rows", "p", "q"), [(6, 3, 2), (40, 5, 4)])
def test_distance_correlation_against_its_definition(rows, p, q):
    first, second = torch.randn(rows, p, generator=rng(1)), torch.randn(rows, q, generator=rng(2))
    expected = distances.distance_correlation(first.tolist(), second.tolist())
    assert distance_correlation(first, second).item() == pytest.approx(expected, rel=1e-4)
    assert distance_correlation(first, 3 * first).item() == pytest.approx(1, rel=1e-4)


def test_distance_correlation_of_like_rows_has_a_finite_gradient():
    values = torch.ones(30, 4, requires_grad=True)
    distance_correlation(torch.randn(30, 2, generator=rng()), values).backward()
    assert values.grad.isfinite().all()


def test_the_leak_term_lowers_the_distance_correlation():
    values, inputs = torch.randn(30, 4, generator=rng(1)), torch.randn(30, 3, generator=rng(2))
    local = replace(here(), inputs=inputs)
    alone = BinarisedSplit(variant="original", leak=0.7).penalty(values, local)
    assert alone.item() == pytest.approx(0.7 * distance_correlation(inputs, values).item())
    both = BinarisedSplit(leak=0.7).penalty(values, local)
    assert both.item() == pytest.approx(alone.item() + BinarisedSplit().penalty(values, local).item())

    def leaked(weight):
        run = cl.train(easy_task(), defences=[BinarisedSplit(bits=8, leak=weight)], recipe=recipe)
        party, rows = run.session.parties["p1"], run.task.train
        with torch.no_grad():
            return distance_correlation(party.features[rows], party.bottom.eval()(party.features[rows])).item()

    recipe = cl.Recipe(epochs=10, batch_size=32, lr=0.01)
    assert leaked(20.0) < leaked(0.0) - 0.1


def test_what_it_refuses():
    with pytest.raises(cl.ConfigError, match="regression task; leave binarised-split out"):
        train(make_task(2, "p0", Goal.REGRESSION), BinarisedSplit())
    given = {f"p{i}": nn.Linear(4 + i, 5) for i in range(2)}
    with pytest.raises(cl.ConfigError, match=r"ends in 4 numbers, one per bit, got shape \(5,\)"):
        train(make_task(2, "p0"), BinarisedSplit(bits=4), bottoms=given)
    with pytest.raises(cl.ProtocolError, match=r"codes of 4 bits from p1, got shape \(5,\)"):
        train(make_task(2, "p0"), BinarisedSplit(bits=4, variant="original"), bottoms=given)
    with pytest.raises(cl.ConfigError, match="at least two rows in a training batch"):
        cl.train(make_task(2, "p0"), defences=[BinarisedSplit()], recipe=cl.Recipe(epochs=1, batch_size=1))
    sparse = replace(here(), inputs=SparseRows.from_scipy(csr_matrix([[1.0, 0.0], [0.0, 1.0]])))
    with pytest.raises(cl.ConfigError, match=r"Expected dense columns to measure leak=0\.5 on, got sparse rows"):
        BinarisedSplit(leak=0.5).penalty(torch.ones(2, 2), sparse)
    assert BinarisedSplit().penalty(torch.ones(2, 2), sparse).item() == 0
    for wrong in ({"bits": 0}, {"weight": -1}, {"leak": -1}, {"epsilon": 0}, {"variant": "mine"}):
        with pytest.raises(cl.ConfigError):
            BinarisedSplit(**wrong)


def test_spelling():
    text = "binarised-split:bits=8,variant=original,weight=0.5,leak=0.1,epsilon=2.0"
    assert parse(text, package, Defence, "defence").describe() == text
