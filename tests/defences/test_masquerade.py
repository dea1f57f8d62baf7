"""Masquerade: Algorithm 4's message and gradients by hand, and what the attack by equations finds in a real run."""

import numpy as np
import pytest
import torch
from torch import nn

import cutlayer as cl
from cutlayer import training
from cutlayer.attacks import BinaryEquations
from cutlayer.auditing.attacking import attack_run
from cutlayer.blocks.sparse import SparseRows
from cutlayer.defence import Role, Setting, Subject
from cutlayer.defences import GaussianNoise, Masquerade
from cutlayer.defences.masquerade import Disguised
from cutlayer.errors import ConfigError
from cutlayer.models.mlp import MLP
from cutlayer.rng import Stream
from cutlayer.spec import parse
from cutlayer.training import train_plan
from cutlayer.transcript import Transcript
from tests.helpers.shop_task import COLUMNS, ROWS, WIDTH, make_task, plan
from tests.helpers.toy import draws, rng


def setting(subject, role=Role.FEATURE_PARTY, seed=0):
    return Setting(party="shop", role=role, subject=subject, classes=2, rng=draws(seed), shared_seed=0)


def build(defence, columns=COLUMNS, width=WIDTH):
    with Stream(0, "toy").scope():
        return defence.model(nn.Linear(columns + 1, width, bias=False), setting(Subject.BOTTOM))


def sent(run, rows):
    """What the feature party sends for some rows in prediction."""
    transcript = Transcript()
    run.session.predict(rows, transcript.write)
    order, payload, _ = transcript.channels["shop", "bank", cl.Kind.EMBEDDING, cl.Phase.PREDICT].read()
    return payload[order.argsort()]


def claimed(run) -> list[np.ndarray]:
    """What Algorithm 1 finds, in the order of the rows."""
    guesses = []
    attack_run(run, [BinaryEquations()], on_guess=lambda attack, guess, finding: guesses.append(guess))
    return list(guesses[0].values[guesses[0].rows.argsort()].numpy().T)


def test_the_message_is_p_q_x_plus_u_a():
    module = build(Masquerade())
    assert module.inner.weight.shape == (COLUMNS - 1, COLUMNS) and module.outer.weight.shape == (WIDTH, COLUMNS - 1)
    x, a = torch.rand(7, COLUMNS, generator=rng()), torch.tensor([[0.0], [1], [1], [0], [1], [0], [1]])
    expected = x @ module.inner.weight.T @ module.outer.weight.T + a * module.mask.T
    torch.testing.assert_close(module(torch.cat([x, a], dim=1)), expected)


def test_gradients_are_those_of_algorithm_4():
    module = build(Masquerade()).double()
    x, a = torch.rand(COLUMNS, generator=rng(1), dtype=torch.float64), 1.0
    gradient = torch.randn(WIDTH, generator=rng(2), dtype=torch.float64)
    module(torch.cat([x, torch.tensor([a], dtype=torch.float64)])[None]).backward(gradient[None])
    p, q = module.outer.weight.detach(), module.inner.weight.detach()
    torch.testing.assert_close(module.outer.weight.grad, torch.outer(gradient, q @ x))
    torch.testing.assert_close(module.inner.weight.grad, torch.outer(p.T @ gradient, x))
    torch.testing.assert_close(module.mask.grad[:, 0], a * gradient)


def test_everything_starts_as_linear_layers_do():
    module = build(Masquerade(rank=4), columns=40, width=300)
    inner, outer, mask = (
        weights.detach().abs().max().item() for weights in (module.inner.weight, module.outer.weight, module.mask)
    )
    assert inner == pytest.approx(40**-0.5, rel=0.05)  # torch's bound: one over the root of what goes in
    assert outer == pytest.approx(0.5, rel=0.02) and mask == pytest.approx(0.5, rel=0.02)


def test_bits_are_fair_and_drawn_once_per_record():
    values = torch.rand(20_000, COLUMNS, generator=rng())
    first, second = (Masquerade().features(values, setting(Subject.FEATURES, seed=3)) for _ in range(2))
    assert torch.equal(first, second) and torch.equal(first[:, :COLUMNS], values)
    assert set(first[:, COLUMNS].tolist()) == {0.0, 1.0} and float(first[:, COLUMNS].mean()) == pytest.approx(
        0.5, abs=0.02
    )
    assert torch.equal(Masquerade(redraw=True).features(values, setting(Subject.FEATURES)), values)


def test_the_label_party_keeps_its_columns_and_models():
    values, model = torch.rand(9, 3), nn.Linear(3, 2)
    assert Masquerade().features(values, setting(Subject.FEATURES, Role.LABEL_PARTY)) is values
    assert all(
        Masquerade().model(model, setting(part, Role.LABEL_PARTY)) is model for part in (Subject.BOTTOM, Subject.TOP)
    )


def test_a_row_without_its_bit_gets_one():
    """An attacker that probes the model does not know the bit."""
    module, x = build(Masquerade()), torch.rand(1, COLUMNS, generator=rng()).expand(64, -1)
    state = torch.random.get_rng_state()
    values = module(x)
    assert torch.equal(module(x), values) and torch.equal(torch.random.get_rng_state(), state)
    with_bit = [module(torch.cat([x, torch.full((64, 1), bit)], dim=1)) for bit in (0.0, 1.0)]
    is_one = (values - with_bit[1]).abs().amax(dim=1) < 1e-6
    assert 0 < is_one.sum() < 64
    torch.testing.assert_close(values, torch.where(is_one[:, None], with_bit[1], with_bit[0]))


def test_equations_find_the_fabricated_bit_and_nothing_else():
    undefended = train_plan(make_task(), plan())
    assert len(claimed(undefended)) == 2
    run = train_plan(make_task(), plan(Masquerade()))
    bits = run.session.parties["shop"].features[:, -1].numpy() == 1
    (column,) = claimed(run)
    assert np.array_equal(column, bits)
    assert run.metrics["accuracy"] > undefended.metrics["accuracy"] - 0.1


def test_several_bits_are_all_found():
    run = train_plan(make_task(), plan(Masquerade(fabricated=2)))
    bits = {bytes(column) for column in run.session.parties["shop"].features[:, -2:].numpy().T == 1}
    assert {bytes(column) for column in claimed(run)} == bits


def test_a_record_carries_one_bit_in_training_and_prediction_unless_redrawn():
    rows = torch.arange(ROWS)
    fixed, redrawn = (train_plan(make_task(), plan(Masquerade(redraw=redraw), epochs=1)) for redraw in (False, True))
    assert torch.equal(sent(fixed, rows), sent(fixed, rows))
    module = redrawn.session.parties["shop"].modules["bottom"]
    assert isinstance(module, Disguised)
    steps = sent(redrawn, rows) - sent(redrawn, rows)
    moved = steps.abs().amax(dim=1) > 1e-6
    assert 0.35 < moved.float().mean() < 0.65
    signs = (steps[moved] @ module.mask[:, 0].detach()).sign()
    torch.testing.assert_close(steps[moved], signs[:, None] * module.mask.T.detach().expand(len(signs), -1))


@pytest.mark.parametrize("redraw", [False, True])
def test_it_resumes_to_the_same_bits_with_noise_on_top(tmp_path, monkeypatch, redraw):
    monkeypatch.setattr(training, "CHECKPOINT_SECONDS", 0.0)
    defended = plan(Masquerade(redraw=redraw), GaussianNoise(std=0.1), epochs=3)
    whole = train_plan(make_task(), defended, out=tmp_path / "whole")

    def stop(done, total, text):
        if done == 15:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_plan(make_task(), defended, out=tmp_path / "cut", progress=stop)
    resumed = train_plan(make_task(), defended, out=tmp_path / "cut", resume=True)
    assert resumed.to_json()["models"] == whole.to_json()["models"] and resumed.metrics == whole.metrics
    again = cl.Run.open(tmp_path / "cut", make_task(), defended)
    assert again.to_json()["models"] == whole.to_json()["models"]


@pytest.mark.parametrize(
    "model",
    [nn.Linear(5, 4), MLP(5, [4]), MLP(5, [8, 4], bias=False), nn.Sequential(nn.Linear(5, 4, bias=False), nn.Tanh())],
    ids=["bias", "bias inside", "two layers", "curved"],
)
def test_other_bottoms_are_refused(model):
    with pytest.raises(ConfigError, match=r"one linear layer without bias.*use --bottom linear"):
        Masquerade().model(model, setting(Subject.BOTTOM))


@pytest.mark.parametrize("model", [MLP(5, [4], bias=False), nn.Sequential(nn.Flatten(), nn.Linear(5, 4, bias=False))])
def test_a_linear_layer_may_come_wrapped(model):
    assert Masquerade().model(model, setting(Subject.BOTTOM)).inner.in_features == 4


def test_dependent_columns_are_refused_unless_the_rank_allows_for_them():
    values = torch.rand(50, 4, generator=rng())
    values = torch.cat([values, values[:, :1] + values[:, 1:2]], dim=1)
    with pytest.raises(ConfigError, match=r"5 columns of shop have rank 4; drop dependent columns or set rank=3"):
        Masquerade().features(values, setting(Subject.FEATURES))
    assert Masquerade(rank=3).features(values, setting(Subject.FEATURES)).shape == (50, 6)
    with pytest.raises(ConfigError, match="fabricate fewer bits"):
        Masquerade(fabricated=4).features(values, setting(Subject.FEATURES))


def test_sparse_columns_are_refused():
    import scipy.sparse

    with pytest.raises(ConfigError, match="dense columns"):
        Masquerade().features(SparseRows.from_scipy(scipy.sparse.eye(4)), setting(Subject.FEATURES))


@pytest.mark.parametrize("text", ["rank=0", "fabricated=0", "rank=two", "bits=1"])
def test_what_it_refuses(text):
    with pytest.raises(ConfigError):
        parse(f"masquerade:{text}", cl.defences, cl.Defence, "defence")
