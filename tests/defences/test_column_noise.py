"""Column noise: answers at the stated rate, drawn once, and no attack is right more often than they are."""

from math import log, sqrt

import pytest
import scipy.sparse
import torch

import cutlayer as cl
from cutlayer.attacks import BinaryEquations, BinaryRegression, BinaryUnmask
from cutlayer.auditing.attacking import attack_run
from cutlayer.blocks.sparse import SparseRows
from cutlayer.data.task import Features, Goal, Task
from cutlayer.defence import Role, Setting, Subject
from cutlayer.defences import ColumnNoise
from cutlayer.errors import ConfigError
from cutlayer.models import named
from cutlayer.plan import Plan
from cutlayer.training import train_plan
from tests.helpers.toy import draws, rng

ROWS = 2000


def setting(role=Role.FEATURE_PARTY, seed=0):
    return Setting(party="shop", role=role, subject=Subject.FEATURES, classes=2, rng=draws(seed), shared_seed=0)


def make_task() -> Task:
    """A fair bit that no other column reveals, and three numbers; the label depends on all."""
    source = rng(5)
    shop = torch.rand(ROWS, 4, generator=source)
    shop[:, 0] = (shop[:, 0] > 0.5).float()
    bank = torch.rand(ROWS, 3, generator=source)
    score = shop.sum(dim=1) + bank.sum(dim=1)
    labels = (score > score.median()).long()
    features = {"bank": Features(bank), "shop": Features(shop)}
    rows = torch.arange(ROWS)
    return Task("toy", features, labels, "bank", Goal.BINARY, ("no", "yes"), rows[:1600], rows[1600:])


def run(*defences):
    recipe = cl.Recipe(epochs=3, batch_size=32, optimiser=cl.Optimiser.SGD, lr=0.1)
    top, bottoms = named.top("relu-mlp:hidden=8"), named.bottom("linear")
    plan = Plan(bottoms=bottoms, top=top, width=12, cut=cl.Sum(), defences=defences, recipe=recipe)
    return train_plan(make_task(), plan)


def test_two_valued_columns_are_answered_at_the_stated_rate_and_others_stay():
    table = torch.rand(100_000, 4, generator=rng())
    table[:, 0] = (table[:, 0] > 0.9).float()
    table[:, 1] = torch.where(table[:, 1] > 0.5, 7.0, -2.0)
    table[:, 2] = 3.0
    before = table.clone()
    noisy = ColumnNoise(flip=0.2).features(table, setting())
    assert torch.equal(table, before) and torch.equal(noisy[:, 2:], table[:, 2:])
    assert set(noisy[:, 1].tolist()) == {7.0, -2.0}
    for column in (0, 1):
        for value in table[:, column].unique():
            kept = (noisy[:, column] == value)[table[:, column] == value].double().mean()
            assert float(kept) == pytest.approx(0.8, abs=0.015)
    flips = (noisy != table)[:, :2].double()
    assert float((flips[:, 0] * flips[:, 1]).mean()) == pytest.approx(0.04, abs=0.004)  # independent of each other


@pytest.mark.parametrize(("flip", "epsilon"), [(0.25, log(3)), (0.1, log(9)), (0.5, 0.0)])
def test_no_answer_says_more_than_epsilon_about_the_value(flip, epsilon):
    """The odds of an answer under one value over that under the other, counted."""
    values = torch.tensor([[0.0], [1.0]]).repeat(200_000, 1)
    answers = ColumnNoise(flip=flip).features(values, setting())
    for answer in (0, 1):
        chances = [float((answers[values == value] == answer).double().mean()) for value in (answer, 1 - answer)]
        assert log(chances[0] / chances[1]) == pytest.approx(epsilon, abs=0.03)


def test_answers_are_drawn_once_per_record_from_the_partys_own_stream():
    table = (torch.rand(500, 2, generator=rng()) > 0.5).float()
    first, again, other = (ColumnNoise().features(table, setting(seed=seed)) for seed in (1, 1, 2))
    assert torch.equal(first, again) and not torch.equal(first, other)
    assert ColumnNoise().features(table, setting(Role.LABEL_PARTY)) is table


def test_no_attack_is_right_more_often_than_the_answers():
    attacks = [BinaryEquations(), BinaryRegression(basis="svd", keep=5, repeats=3), BinaryUnmask(starts=50)]
    assert min(finding.value for finding in attack_run(run(), attacks)) == 1.0
    for flip in (0.25, 0.5):
        findings = attack_run(run(ColumnNoise(flip=flip)), attacks)
        assert max(finding.value for finding in findings) <= 1 - flip + 4 * sqrt(0.25 / ROWS)
        assert "0 of 1 two-valued columns exact" in findings[0].detail


def test_noise_on_the_message_does_not_bound_them():
    """Gaussian noise on what is sent averages out over its width; the same attack still has nearly every bit."""
    (finding,) = attack_run(run(cl.defences.GaussianNoise(std=0.3)), [BinaryUnmask(starts=50)])
    assert finding.value > 0.97


def test_what_it_refuses():
    for flip in (0.0, -0.1, 0.51, float("nan")):
        with pytest.raises(ConfigError, match="Expected flip="):
            ColumnNoise(flip=flip)
    with pytest.raises(ConfigError, match="dense columns"):
        ColumnNoise().features(SparseRows.from_scipy(scipy.sparse.eye(4)), setting())
