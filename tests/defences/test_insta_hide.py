"""InstaHide by hand: mixtures, signs, and the gradient of the mixed labels' loss."""

from math import isfinite

import pytest
import scipy.sparse
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn.functional import cross_entropy, mse_loss, one_hot

import cutlayer as cl
from cutlayer.blocks.sparse import SparseRows
from cutlayer.data.task import Goal
from cutlayer.defence import Local, Place, Role, Setting, Subject
from cutlayer.defences import Instahide
from cutlayer.defences.insta_hide import MOST, Flipped, mixed, mixture
from cutlayer.errors import ConfigError
from cutlayer.message import Kind, Phase
from cutlayer.rng import Stream
from tests.helpers.small_task import make_task
from tests.helpers.toy import draws, rng

RECIPE = cl.Recipe(epochs=3, batch_size=32)
ROWS = torch.tensor([7, 3, 11, 5, 2, 19])


class Bare(nn.Module):
    """Send columns as they are; a bottom must have something to learn."""

    def __init__(self):
        super().__init__()
        self.idle = nn.Parameter(torch.zeros(()))

    def forward(self, values):
        return values + 0 * self.idle


def local(place=Place.EMBEDDING, training=True, labels=None, rows=ROWS):
    return Local(place, draws(), training, rows, labels=labels, shared_seed=4)


def setting(role=Role.FEATURE_PARTY, subject=Subject.BOTTOM):
    return Setting("p", role, subject, 3, draws(), 4)


def test_a_mixture_by_hand():
    values = torch.tensor([[[1.0, 2.0]], [[3.0, 4.0]], [[5.0, 6.0]]])
    partners = torch.tensor([[0, 1], [1, 2], [2, 0]])
    weights = torch.tensor([[0.5, 0.5], [0.4, 0.6], [0.6, 0.4]], dtype=torch.float64)
    expected = torch.tensor([[[2.0, 3.0]], [[4.2, 5.2]], [[3.4, 4.4]]])
    assert torch.allclose(mixed(values, partners, weights), expected)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 4), st.integers(1, 40), st.integers(0, 99))
def test_mixtures_are_shares_of_the_row_itself_and_of_permutations(k, count, seed):
    rows = torch.randperm(100, generator=rng(seed))[:count]
    partners, weights = mixture(rows, k, seed)
    assert torch.equal(partners[:, 0], torch.arange(count))
    assert torch.equal(partners.sort(dim=0).values, torch.arange(count)[:, None].expand(-1, k))
    assert torch.allclose(weights.sum(dim=1), torch.ones(count, dtype=torch.float64))
    assert weights.min() >= 0 and (k == 1 or weights.max() <= MOST)
    again = mixture(rows, k, seed)
    assert torch.equal(partners, again[0]) and torch.equal(weights, again[1])


def test_shares_follow_the_half_normal_that_was_kept():
    _, weights = mixture(torch.arange(20_000), 2, 0)
    drawn = torch.randn(200_000, 2, generator=rng(), dtype=torch.float64).abs()
    drawn = drawn[:, 0] / drawn.sum(dim=1)
    kept = drawn[(drawn <= MOST) & (drawn >= 1 - MOST)]
    assert weights[:, 0].mean().item() == pytest.approx(0.5, abs=0.005)
    assert weights[:, 0].std().item() == pytest.approx(kept.std().item(), rel=0.02)


def test_mixtures_depend_on_the_rows_their_order_and_the_seed():
    _, weights = mixture(ROWS, 3, 4)
    for rows, seed in ((ROWS.flip(0), 4), (ROWS + 1, 4), (ROWS, 5)):
        other = mixture(rows, 3, seed)
        assert not torch.equal(weights, other[1])
    assert torch.equal(weights, mixture(ROWS.to(torch.int32), 3, 4)[1])


def test_all_parties_mix_alike_and_only_in_training():
    values = torch.rand(6, 1, 2, 2, generator=rng())
    own = torch.rand(6, 3, generator=rng(1), dtype=torch.float64)
    partners, weights = mixture(ROWS, 4, 4)
    for table in (values, own):
        expected = sum(weights[:, j].view(-1, *[1] * (table.dim() - 1)) * table[partners[:, j]] for j in range(4))
        assert torch.allclose(Instahide().batch(table, local(Place.INPUTS)), expected.to(table.dtype))
        assert Instahide().batch(table, local(Place.INPUTS, training=False)) is table
    assert torch.equal(Instahide(k=1).batch(values, local(Place.INPUTS)), values)


def test_signs_are_fair_fresh_and_in_training_only():
    flipped = Flipped(nn.Identity())
    values = torch.rand(100, 50, generator=rng()) + 0.1
    with Stream(0, "p").scope():
        first, second = flipped(values), flipped(values)
    assert torch.equal(first.abs(), values) and not torch.equal(first, second)
    assert (first > 0).double().mean().item() == pytest.approx(0.5, abs=0.02)
    assert torch.equal(flipped.eval()(values), values)


def test_only_what_is_sent_is_flipped():
    layer = nn.Linear(2, 3)
    assert isinstance(Instahide().model(layer, setting()), Flipped)
    assert Instahide().model(layer, setting(Role.LABEL_PARTY)) is layer
    assert Instahide().model(layer, setting(Role.LABEL_PARTY, Subject.TOP)) is layer


@pytest.mark.parametrize("k", [1, 2, 4])
@pytest.mark.parametrize("soft", [False, True])
def test_the_gradient_is_that_of_the_mixed_labels(k, soft):
    outputs = torch.randn(6, 3, generator=rng(), requires_grad=True)
    labels = torch.randn(6, 3, generator=rng(1)).softmax(dim=1) if soft else torch.tensor([0, 1, 2, 2, 1, 0])
    wanted = mixed(labels if soft else one_hot(labels, 3).float(), *mixture(ROWS, k, 4))
    (plain,) = torch.autograd.grad(cross_entropy(outputs, labels), outputs)
    (expected,) = torch.autograd.grad(cross_entropy(outputs, wanted), outputs)
    gradient = Instahide(k=k).protect(plain, local(Place.LOGITS, labels=labels))
    assert torch.allclose(gradient, expected, atol=1e-6)


def test_the_gradient_of_a_mixed_number():
    outputs, labels = torch.randn(6, 1, generator=rng(), requires_grad=True), torch.randn(6, generator=rng(1))
    wanted = mixed(labels[:, None], *mixture(ROWS, 4, 4))[:, 0]
    (plain,) = torch.autograd.grad(mse_loss(outputs[:, 0], labels), outputs)
    (expected,) = torch.autograd.grad(mse_loss(outputs[:, 0], wanted), outputs)
    assert torch.allclose(Instahide().protect(plain, local(Place.LOGITS, labels=labels)), expected, atol=1e-6)


def test_messages_are_left_alone():
    payload = torch.rand(6, 3, generator=rng())
    for place in (Place.EMBEDDING, Place.GRADIENT):
        assert Instahide().protect(payload, local(place, labels=torch.zeros(6, dtype=torch.int64))) is payload


def test_what_it_refuses():
    for k in (0, 5, -1):
        with pytest.raises(ConfigError, match=f"k={k} to be 1, 2, 3 or 4"):
            Instahide(k=k)
    for values in (SparseRows.from_scipy(scipy.sparse.eye(6)), torch.ones(6, 3, dtype=torch.int64)):
        with pytest.raises(ConfigError, match="dense columns of numbers"):
            Instahide().batch(values, local(Place.INPUTS))


def test_what_crosses_is_mixed_and_flipped_in_training_and_plain_in_prediction():
    task = make_task(2, "p0")
    run = cl.train(task, defences=[Instahide(k=3)], recipe=RECIPE, keep="all", bottoms=lambda features, width: Bare())
    table = task.features["p1"].values
    channel = run.view("p0").channel(Kind.EMBEDDING, peer="p1")
    signs = []
    for message in channel.messages():
        rows = message.batch.rows
        expected = mixed(table[rows], *mixture(rows, 3, run.plan.seed))
        assert torch.allclose(message.payload.abs(), expected.abs(), atol=1e-6)
        signs.append((message.payload * expected > 0).double().mean().item())
    assert len(signs) == 3 * 4 and 0.4 < sum(signs) / len(signs) < 0.6
    run.predict(task.test)
    rows, sent, *_ = run.view("p0").channel(Kind.EMBEDDING, Phase.PREDICT, peer="p1").read()
    assert torch.equal(sent, table[rows])


def test_a_federation_learns():
    run = cl.train(cl.data.digits(parties=2, limit=900), defences=[Instahide(k=2)], recipe=RECIPE)
    assert run.metrics["accuracy"] > 0.4
    assert run.plan.defences[0].describe() == "instahide:k=2"


def test_regression_trains_too():
    run = cl.train(make_task(2, "p0", Goal.REGRESSION), defences=[Instahide()], recipe=RECIPE)
    assert isfinite(run.metrics["r2"])
