"""Noised gradients: the top learns from clean labels, so one label moves the gradients of other rows, unnoised.

Two runs differ in one label and share all their noise, so that what differs in their messages is what the label did.
"""

from dataclasses import replace

import torch

from cutlayer.auditing.canaries import privacy_of
from cutlayer.defences import DpSgd
from cutlayer.message import Kind
from cutlayer.plan import Plan
from cutlayer.recipe import Optimiser, Recipe
from cutlayer.training import train_plan
from tests.helpers.small_task import make_task

RECIPE = Recipe(epochs=4, batch_size=16, lr=0.05, optimiser=Optimiser.SGD, momentum=0.0)


def messages(task, defence):
    """All gradients that the feature party got, one by one, in units of a row's own loss; and the rows they are for."""
    run = train_plan(task, Plan(defences=(defence,), recipe=RECIPE), keep="all")
    rows, sent, _ = run.view("p1").channel(Kind.GRADIENT, peer="p1").read()
    return rows, sent.double() * RECIPE.batch_size


def moved(defence):
    """How far one label moves its own row's gradients, and how far all others', over the run."""
    task = make_task(2, "p0")
    canary = int(task.train[0])
    labels = task.labels.clone()
    labels[canary] = (labels[canary] + 1) % len(task.classes)
    rows, sent = messages(task, defence)
    _, other = messages(replace(task, labels=labels), defence)
    apart = (sent - other).flatten(1)
    own = rows == canary
    return apart[own].norm().item(), apart[~own].norm().item()


def test_one_label_moves_other_rows_by_as_much_as_its_own_and_no_epsilon_is_stated():
    defence = DpSgd(where="gradient")
    own, others = moved(defence)
    assert others > 0.3 * own > 0  # noise of 3.3 stands on both runs and cancels; an account of `own` misses this
    (told,) = privacy_of(make_task(2, "p0"), Plan(defences=(defence,), recipe=RECIPE))
    assert told.epsilon is None and told.reason == "the top is trained on clean labels"


def test_at_the_logits_a_label_moves_one_release_and_what_follows_is_computed_from_it():
    """Before the first step models are the same: one row of the release differs, by no more than is accounted for."""
    task, seen = make_task(2, "p0"), []

    class Spy(DpSgd):
        def protect(self, payload, local):
            sent = super().protect(payload, local)
            if sent is not payload:
                seen[-1].append((local.rows, sent.double() * len(sent)))
            return sent

    canary = int(task.train[0])
    labels = task.labels.clone()
    labels[canary] = (labels[canary] + 1) % len(task.classes)
    whole = replace(RECIPE, epochs=1, batch_size=len(task.train))
    for each in (task.labels, labels):
        seen.append([])
        train_plan(replace(task, labels=each), Plan(defences=(Spy(where="logits"),), recipe=whole))
    (rows, first), (_, second) = seen[0][0], seen[1][0]
    apart = (first - second).norm(dim=1)
    assert torch.equal(apart > 0, rows == canary) and apart.max() <= 2**0.5 + 1e-4


def test_and_what_canaries_show_stays_below_its_epsilon():
    for noise in (1.0, 3.3):
        plan = Plan(defences=(DpSgd(where="logits", noise=noise),), recipe=RECIPE)
        (told,) = privacy_of(make_task(2, "p0"), plan)
        assert 0 < told.at_least < told.epsilon
