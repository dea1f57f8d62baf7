"""MID by hand: the divergence, its gradient, what is sent, and where bottlenecks go."""

from math import e, log

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.distributions import Normal, kl_divergence

import cutlayer as cl
from cutlayer.checkpoint import digest
from cutlayer.defence import Role, Setting, Subject
from cutlayer.defences import MutualInformation
from cutlayer.defences.mutual_information import Bottleneck, divergence
from cutlayer.errors import ConfigError
from cutlayer.rng import Stream, normal_like
from tests.helpers.small_task import make_task
from tests.helpers.toy import draws, rng

RECIPE = cl.Recipe(epochs=3, batch_size=32)


def setting(role=Role.FEATURE_PARTY, subject=Subject.BOTTOM):
    return Setting("p", role, subject, 3, draws(), 4)


def build(*arguments):
    with Stream(0, "made").scope():
        return Bottleneck(*arguments)


def passed(model, values, seed=0):
    with Stream(seed, "noise").scope():
        return model(values)


def test_the_divergence_by_hand():
    zeros = torch.zeros(2, 3)
    assert divergence(zeros, zeros).item() == 0
    assert divergence(torch.tensor([[2.0, 0.0], [0.0, 0.0]]), torch.zeros(2, 2)).item() == pytest.approx(4 / 2 / 2)
    # variance e: (e - 1 - 1) / 2 per number, two of them in one row
    assert divergence(torch.zeros(1, 2), torch.ones(1, 2)).item() == pytest.approx(e - 2)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 6), st.integers(1, 5), st.integers(0, 99))
def test_it_is_the_divergence_of_normals(rows, width, seed):
    mean, log_variance = torch.randn(2, rows, width, generator=rng(seed), dtype=torch.float64)
    expected = kl_divergence(Normal(mean, (log_variance / 2).exp()), Normal(0.0, 1.0)).sum(dim=1).mean()
    assert divergence(mean, log_variance).item() == pytest.approx(expected.item())


def test_what_is_sent_has_the_learned_mean_and_spread():
    bottleneck = build(2, False, 0.1)
    with torch.no_grad():
        bottleneck.heads.weight.copy_(torch.tensor([[1.0, 0.0], [0.0, 2.0], [0.0, 0.0], [0.0, 0.0]]))
        bottleneck.heads.bias.copy_(torch.tensor([0.0, 1.0, log(4.0), log(0.25)]))
    sent = passed(bottleneck.eval(), torch.tensor([[3.0, -1.0]]).repeat(40_000, 1))
    assert sent.mean(dim=0).tolist() == pytest.approx([3, -1], abs=0.04)
    assert sent.std(dim=0).tolist() == pytest.approx([2, 0.5], rel=0.02)


@pytest.mark.parametrize(("maps", "shape"), [(False, (5, 3)), (True, (5, 3, 2, 2))])
def test_backward_adds_the_weighted_divergence_to_the_loss(maps, shape):
    bottleneck = build(3, maps, 0.7).double()
    values = torch.randn(shape, generator=rng(), dtype=torch.float64, requires_grad=True)
    gradient = torch.randn(shape, generator=rng(1), dtype=torch.float64)
    sent = passed(bottleneck, values)
    assert sent.shape == values.shape
    sent.backward(gradient)
    gradients = [values.grad, *(p.grad for p in bottleneck.parameters())]
    mean, log_variance = bottleneck.heads(values).chunk(2, dim=1)
    with Stream(0, "noise").scope():
        noise = normal_like(mean)
    loss = ((mean + (log_variance / 2).exp() * noise) * gradient).sum() + 0.7 * divergence(mean, log_variance)
    expected = torch.autograd.grad(loss, [values, *bottleneck.parameters()])
    assert all(torch.allclose(a, b) for a, b in zip(gradients, expected, strict=True))


def test_noise_is_fresh_in_prediction_too():
    bottleneck, values = build(3, False, 0.1).eval(), torch.ones(4, 3)
    assert torch.equal(passed(bottleneck, values), passed(bottleneck, values))
    assert not torch.equal(passed(bottleneck, values), passed(bottleneck, values, seed=1))


@pytest.mark.parametrize(
    ("at", "bottoms", "tops"), [("features", True, False), ("label", False, True), ("both", True, True)]
)
def test_where_bottlenecks_go(at, bottoms, tops):
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    with Stream(0, "made").scope():
        bottom = MutualInformation(at=at).model(model, setting())
        own = MutualInformation(at=at).model(model, setting(Role.LABEL_PARTY))
        top = MutualInformation(at=at).model(model, setting(Role.LABEL_PARTY, Subject.TOP))
    assert own is model
    assert (bottom is not model) == bottoms and (not bottoms or bottom[1].width == 3)
    assert (top is not model) == tops and (not tops or top[0].width == 4)


def test_feature_maps_pass_map_by_map():
    bottom = nn.Sequential(nn.Conv2d(1, 6, 3), nn.ReLU())
    with Stream(0, "made").scope():
        ended = MutualInformation().model(bottom, setting())
    assert passed(ended, torch.rand(2, 1, 5, 5)).shape == (2, 6, 3, 3)


def test_what_it_refuses():
    for wrong in ({"weight": 0.0}, {"weight": float("nan")}, {"at": "top"}):
        with pytest.raises(ConfigError):
            MutualInformation(**wrong)
    with pytest.raises(ConfigError, match="a bottom with a linear"):
        MutualInformation().model(nn.Identity(), setting())
    with pytest.raises(ConfigError, match="a top with a linear"):
        MutualInformation(at="label").model(nn.Identity(), setting(Role.LABEL_PARTY, Subject.TOP))
    with pytest.raises(ConfigError, match=r"Expected 6 feature maps a row .* got shape \(54,\)"):
        ended = MutualInformation().model(nn.Sequential(nn.Conv2d(1, 6, 3), nn.Flatten()), setting())
        ended(torch.rand(2, 1, 5, 5))


@pytest.mark.parametrize("at", ["features", "label", "both"])
def test_a_federation_learns_and_repeats(at):
    task = cl.data.digits(parties=2, limit=800)
    first, second = (cl.train(task, defences=[MutualInformation(at=at)], recipe=RECIPE) for _ in range(2))
    assert first.metrics["accuracy"] > 0.4
    assert all(digest(first.models[name]) == digest(second.models[name]) for name in first.models)


def test_a_heavy_weight_makes_embeddings_noise():
    task, recipe = make_task(2, "p0"), cl.Recipe(epochs=20, batch_size=32, lr=0.01)
    run = cl.train(task, defences=[MutualInformation(weight=100.0)], recipe=recipe)
    bottom, rows = run.models["p1.bottom"].eval(), task.features["p1"].values
    mean, log_variance = bottom[1].heads(bottom[0](rows)).chunk(2, dim=1)
    assert divergence(mean, log_variance) < 0.2
