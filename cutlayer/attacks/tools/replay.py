"""Replay: what a party computed in training, worked out again from the messages that it received.

A party need not have written anything down. From how it began, the gradients that it received and the recipe that all
agreed on, it can repeat its training step by step.
"""

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import torch
from torch import Tensor, nn
from torch.nn.utils import vector_to_parameters

from cutlayer.blocks.secret_parts import without_secrets
from cutlayer.blocks.sparse import SparseRows
from cutlayer.draws import Draws
from cutlayer.errors import Inapplicable
from cutlayer.message import Kind, Message
from cutlayer.recipe import Recipe
from cutlayer.view import Moment, Start, View


@dataclass(frozen=True)
class Step:
    """One training step, as the party that took it knows it."""

    rows: Tensor
    gradient: Tensor  # as received
    before: Tensor  # the party's embeddings under the weights before the step
    after: Tensor  # and after it
    weights: Tensor  # the party's parameters before the step, flat
    updated: Tensor  # and after it
    slopes: Tensor  # the gradient of the parameters, flat, before clipping
    inputs: Tensor


def replay(view: View, *, first_only: bool = False) -> Iterator[Step]:
    """Train the attacker's own bottom again, from its start, on the gradients that it received.

    This is exactly its own past, unless a defence of its own changes how it learns. The replay stops at the first
    epoch that was not kept, or after epoch 0 (`first_only`).
    """
    start = view.own[view.attacker].start
    if start is None:
        raise Inapplicable("needs a bottom model of the attacker's own")
    channel = view.channel(Kind.GRADIENT, peer=view.attacker)
    epochs = channel.entries["epoch"]
    if not len(epochs) or epochs[0] != 0:
        raise Inapplicable("needs the first epoch's messages: train with --keep ends or all")
    party = _Party(start(), view.manifest.recipe)
    for number, message in enumerate(channel.messages()):
        epoch = int(epochs[number])
        if epoch > (0 if first_only else int(epochs[max(0, number - 1)]) + 1):
            return  # the epochs in between were not kept
        yield party.step(message, epoch)


def first_moments(view: View, count: int) -> tuple[Moment, ...]:
    """The first training steps of a view's party: its bottom before each, and the gradients of its parameters."""
    start, moments = view.own[view.attacker].start, list[Moment]()
    for step in islice(replay(view, first_only=True), count):
        assert start is not None  # or `replay` had refused
        bottom = without_secrets(start().bottom.cpu(), Draws(0, "passports"))
        learned = {name: p for name, p in bottom.named_parameters() if p.requires_grad}
        vector_to_parameters(step.weights, learned.values())
        parts = step.slopes.split([p.numel() for p in learned.values()])
        slopes = {name: part.view_as(p) for (name, p), part in zip(learned.items(), parts, strict=True)}
        moments.append(Moment(step.rows, bottom, slopes))
    return tuple(moments)


class _Party:
    """A party that takes its training steps again."""

    def __init__(self, start: Start, recipe: Recipe) -> None:
        if isinstance(start.features, SparseRows):
            raise Inapplicable("dense-only")
        self.bottom, self.features, self.stream = start.bottom.cpu(), start.features.cpu(), start.stream
        self.recipe = recipe
        self.parameters = [p for p in self.bottom.parameters() if p.requires_grad]
        self.optimizer = recipe.optimizer(self.parameters) if self.parameters else None

    def step(self, message: Message, epoch: int) -> Step:
        """Embed the rows of a gradient, and learn from it."""
        rows = message.batch.rows
        inputs = self.features[rows]
        with self.stream.scope():
            sent = self.bottom.train()(inputs)
        weights = _flat(self.parameters)
        slopes = self._learn(sent, message.payload.view_as(sent).to(sent), epoch)
        with torch.no_grad(), copy.deepcopy(self.stream).scope():  # a look that the party itself did not take
            after = self.bottom.eval()(inputs)
        updated = _flat(self.parameters)
        return Step(rows, message.payload, sent.detach(), after, weights, updated, slopes, inputs)

    def _learn(self, sent: Tensor, gradient: Tensor, epoch: int) -> Tensor:
        """One step of the optimiser; the gradient of all parameters."""
        if self.optimizer is None:
            return torch.empty(0)
        for group in self.optimizer.param_groups:
            group["lr"] = self.recipe.rate(epoch)
        self.optimizer.zero_grad()
        sent.backward(gradient)
        slopes = _flat([torch.zeros_like(p) if p.grad is None else p.grad for p in self.parameters])
        if self.recipe.clip is not None:
            nn.utils.clip_grad_norm_(self.parameters, self.recipe.clip)
        self.optimizer.step()
        return slopes


def _flat(parameters: Sequence[Tensor]) -> Tensor:
    return torch.cat([p.detach().flatten() for p in parameters]) if parameters else torch.empty(0)
