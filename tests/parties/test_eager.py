"""Look-ahead: a feature party begins later batches before earlier gradients are back, by exactly so many."""

import pytest
import torch
from torch import nn

from cutlayer.checkpoint import digest
from cutlayer.cuts.secure_sum import SecureSum
from cutlayer.errors import ConfigError
from cutlayer.plan import Plan, assemble
from cutlayer.recipe import Optimiser, Recipe
from cutlayer.rng import generator
from cutlayer.training import train_plan
from tests.helpers.small_task import make_task

RECIPE = Recipe(epochs=2, batch_size=16, lr=0.05, optimiser=Optimiser.SGD, momentum=0.0)


def bottom(features, width):
    return nn.Sequential(nn.Linear(features.values.shape[1], 6), nn.Tanh(), nn.Linear(6, width))


def plan(lookahead, **changes):
    return Plan(bottoms=bottom, top=nn.Linear, width=4, recipe=RECIPE, lookahead=lookahead, **changes)


def trained(task, lookahead, rest=None):
    session = assemble(task, plan(lookahead), lambda message: None)
    session.rest = rest
    losses = [session.train_epoch(epoch, task.train) for epoch in range(2)]
    return session, losses


def by_hand(task, lookahead, rest=None):
    """The same, written out: embeddings of batch t are from the weights after the update of batch t - 1 - lookahead."""
    session = assemble(task, plan(0), lambda message: None)
    mine, theirs = (session.parties[name].modules["bottom"] for name in ("p0", "p1"))
    top = session.label_party.top
    step = 0

    def gradients(weights, rows, gradient):
        x = task.features["p1"].values[rows]
        sent = torch.func.functional_call(theirs, weights, (x,))
        sent.backward(gradient)
        return [w.grad for w in weights.values()]

    for epoch in range(2):
        order = task.train[torch.randperm(len(task.train), generator=generator(0, "order", epoch))]
        under_way = []

        def finish(ahead, under_way=under_way):
            while len(under_way) > ahead:
                rows, weights, sent = under_way.pop(0)
                leaf = sent.detach().requires_grad_()
                joint = torch.cat([mine(task.features["p0"].values[rows]), leaf], dim=1)
                loss = nn.functional.cross_entropy(top(joint), task.labels[rows])
                for module in (mine, top):
                    module.zero_grad()
                loss.backward()
                with torch.no_grad():
                    for module in (mine, top):
                        for p in module.parameters():
                            p -= 0.05 * p.grad
                grads = gradients(weights, rows, leaf.grad)
                with torch.no_grad():
                    for p, g in zip(theirs.parameters(), grads, strict=True):
                        p -= 0.05 * g

        for rows in order.split(16):
            step += 1
            weights = {n: p.detach().clone().requires_grad_() for n, p in theirs.named_parameters()}
            under_way.append(
                (rows, weights, torch.func.functional_call(theirs, weights, (task.features["p1"].values[rows],)))
            )
            finish(lookahead)
            if rest and step % rest == 0:
                finish(0)
        finish(0)
    return mine, theirs, top


@pytest.mark.parametrize(("lookahead", "rest"), [(0, None), (1, None), (3, None), (2, 3)])
def test_staleness_is_exactly_what_was_asked_for(lookahead, rest):
    task = make_task(2, "p0")
    session, losses = trained(task, lookahead, rest)
    mine, theirs, top = by_hand(task, lookahead, rest)
    for ours, reference in (
        (session.parties["p0"].modules["bottom"], mine),
        (session.parties["p1"].modules["bottom"], theirs),
        (session.label_party.top, top),
    ):
        for weight, expected in zip(ours.parameters(), reference.parameters(), strict=True):
            torch.testing.assert_close(weight, expected, rtol=1e-5, atol=1e-6)
    assert all(loss == loss for loss in losses)


def test_the_party_itself_changes_nothing():
    """An eager party that is never ahead (it rests after every step) trains as an ordinary one does, bit for bit."""
    task = make_task(2, "p0")
    eager, _ = trained(task, 2, rest=1)
    usual, _ = trained(task, 0)
    for name in ("p0", "p1"):
        assert digest(eager.parties[name].modules["bottom"]) == digest(usual.parties[name].modules["bottom"])


def test_it_still_learns():
    task = make_task(2, "p0")
    run = train_plan(task, Plan(recipe=Recipe(epochs=20, batch_size=16), lookahead=2))
    assert run.history[-1]["loss"] < 0.8 * run.history[0]["loss"]


def test_cuts_with_several_messages_are_refused():
    with pytest.raises(ConfigError, match="Expected a cut of one message each way for look-ahead, got secure-sum"):
        assemble(make_task(3, "p0"), plan(1, cut=SecureSum(scheme="none")), lambda message: None)
