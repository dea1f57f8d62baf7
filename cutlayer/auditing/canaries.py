"""Canaries: measure in one run how much of a guaranteed secret comes through, beside what its mechanism promises.

A short rehearsal runs the plan's own code: same defences, models and epochs, on rows of the task whose secret a fair
coin decided. A label's coin chooses one of two classes, a value's coin one of two values. An auditor who knows all but
the coins guesses them from what was released, and blocks/one_run turns right guesses into a lower bound on epsilon.
It refutes a mechanism that is broken; it never proves one. Epsilon of where=parameters is not measured: it would need
trainings of its own. Nor is anything under a secure cut, whose cost would be that of another run.
"""

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import one_hot

from cutlayer.blocks.one_run import Array, lower_bound
from cutlayer.data.task import Task
from cutlayer.defence import Defence, Local, Place, Role, Setting, Subject
from cutlayer.draws import Draws
from cutlayer.plan import Plan, assemble, course_of, facts_of
from cutlayer.privacy import Guarded, Privacy, stated_once
from cutlayer.rng import derive

CANARIES = 2000
BATCH = 512
MOST_CLASSES = 32  # beyond, the auditor would need more memory than a training


def privacy_of(task: Task, plan: Plan, canaries: int = CANARIES) -> tuple[Privacy, ...]:
    """What the defences of a plan guarantee, each with a lower bound where that can be measured cheaply."""
    course = course_of(facts_of(task), plan)
    found = [(defence, defence.privacy(course)) for defence in plan.defences]
    kept = [(defence, one) for defence, one in found if one is not None]
    stated = stated_once([one for _, one in kept])
    return tuple(
        replace(one, at_least=_measured(task, plan, defence, one, canaries))
        for (defence, _), one in zip(kept, stated, strict=True)
    )


def _measured(task: Task, plan: Plan, defence: Defence, stated: Privacy, canaries: int) -> float | None:
    """The lower bound for one guarantee; None if it is not measured."""
    if stated.epsilon is None:
        return None
    if stated.secret is Guarded.VALUE:
        return lower_bound(*value_canaries(defence, canaries, plan.seed), stated.delta)
    measurable = stated.secret is Guarded.LABEL and course_of(facts_of(task), plan).plain_cut
    if not measurable or not 2 <= len(task.classes) <= MOST_CLASSES:
        return None
    return lower_bound(*label_canaries(task, plan, canaries, open_top=defence.covers_top), stated.delta)


def value_canaries(defence: Defence, count: int, seed: int) -> tuple[Array, Array]:
    """Coins as a two-valued column, and the answers that all later messages are made of."""
    coins = _coins(count, seed)
    rng = Draws(seed, "canaries", "answers")
    setting = Setting("canaries", Role.FEATURE_PARTY, Subject.FEATURES, 2, rng, seed, derive(seed, "canaries"), count)
    answers = defence.features(coins[:, None].float(), setting)
    assert isinstance(answers, Tensor)
    return coins.double().numpy(), answers[:, 0].double().numpy()


def label_canaries(task: Task, plan: Plan, count: int, *, open_top: bool) -> tuple[Array, Array]:
    """Train on rows with labels by coins, and score each coin by the gradients that feature parties were sent.

    With `open_top` the top is covered by the guarantee, so the auditor may know it. Else it has the messages, and as
    many rows again whose labels it knows.
    """
    rng = Draws(plan.seed, "canaries", "rows")
    total = count if open_top else 2 * count
    rows = task.train[rng.integers(len(task.train), (total,))]
    classes = len(task.classes)
    first = rng.integers(classes, (total,))
    second = (first + 1 + rng.integers(classes - 1, (total,))) % classes
    coins = _coins(total, plan.seed)
    labels = torch.where(coins > 0, second, first)
    every = torch.arange(total)
    features = {name: replace(held, values=held.values.index_select(0, rows)) for name, held in task.features.items()}
    rehearsed = replace(task, features=features, labels=labels, train=every, test=every[:0], valid=every[:0])
    auditor = WhiteBox(first, second) if open_top else BlackBox(first, second, labels, count)
    same = replace(
        plan,
        recipe=replace(plan.recipe, batch_size=BATCH, patience=None),
        defences=(*plan.defences, auditor),
        private_seed=derive(plan.seed, "canaries"),
        lookahead=0,
        parties={},
    )
    session = assemble(rehearsed, same, lambda message: None)
    for epoch in range(same.recipe.epochs):
        session.train_epoch(epoch, every)
    return coins[:count].double().numpy(), np.asarray(auditor.scores[:count], dtype=np.float64)


def _coins(count: int, seed: int) -> Tensor:
    return 2 * Draws(seed, "canaries", "coins").integers(2, (count,)) - 1


class Auditor(Defence):
    """The last defence: it changes nothing and keeps, for each row, evidence for the second label over the first."""

    def __init__(self, first: Tensor, second: Tensor) -> None:
        self.first = first
        self.second = second
        self.scores = torch.zeros(len(first), dtype=torch.float64)

    def protect(self, payload: Tensor, local: Local) -> Tensor:
        """Look at gradients as they are sent."""
        if local.place is Place.GRADIENT and local.training:
            self.look(payload.detach().flatten(1).cpu().double(), local)
        return payload

    def look(self, sent: Tensor, local: Local) -> None:
        """Add what a message tells to the scores of its rows."""
        raise NotImplementedError


class WhiteBox(Auditor):
    """Knows the top: finds the gradient at the logits behind a row's messages, by least squares over all parties."""

    def __init__(self, first: Tensor, second: Tensor) -> None:
        super().__init__(first, second)
        self.gram, self.right, self.heard = torch.zeros(0), torch.zeros(0), 0

    def look(self, sent: Tensor, local: Local) -> None:
        """Sum up the equations of all feature parties, then solve them."""
        assert local.retrace is not None and local.outputs is not None and local.course is not None
        outputs = local.outputs
        units = torch.eye(outputs.shape[1]).to(outputs)
        slopes = [local.retrace(unit.expand_as(outputs)).flatten(1).cpu().double() for unit in units]
        jacobian = torch.stack(slopes, dim=2)  # rows, numbers of an embedding, classes
        gram, right = jacobian.mT @ jacobian, jacobian.mT @ (len(sent) * sent)[:, :, None]
        self.gram, self.right = (gram, right) if not self.heard else (self.gram + gram, self.right + right)
        self.heard = (self.heard + 1) % local.course.feature_parties
        if self.heard or not bool(self.gram.isfinite().all() and self.right.isfinite().all()):
            return
        found = (torch.linalg.pinv(self.gram, hermitian=True) @ self.right)[:, :, 0]
        rows, likely = local.rows.cpu(), outputs.softmax(dim=1).cpu().double()
        towards = one_hot(self.second[rows], len(units)) - one_hot(self.first[rows], len(units))
        self.scores[rows] += ((likely - found) * towards).sum(dim=1)


class BlackBox(Auditor):
    """Knows the labels of all rows from `count` on: compares a message with the mean message of either class."""

    def __init__(self, first: Tensor, second: Tensor, labels: Tensor, count: int) -> None:
        super().__init__(first, second)
        self.truth = labels
        self.count = count

    def look(self, sent: Tensor, local: Local) -> None:
        """Add how much nearer a row's message is to one class than to the other."""
        rows = local.rows.cpu()
        known = rows >= self.count
        weights = one_hot(self.truth[rows], local.classes).double() * known[:, None]
        means = (weights.T @ sent) / weights.sum(dim=0).clamp(min=1)[:, None]
        self.scores[rows] += (sent * (means[self.second[rows]] - means[self.first[rows]])).sum(dim=1)
