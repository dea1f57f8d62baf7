"""FeatureParty, LabelParty: they compute. They never do I/O and never see another party's rows.

`talk` is a party's part of one batch, written top to bottom as the protocol reads (see
message.Talk). Who carries the messages, a loop in this process or a network, is not a
party's business.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, mse_loss

from cutlayer.blocks.sparse import SparseRows
from cutlayer.cut import Cut, Roster
from cutlayer.defence import Defence, Local, Place, Setting, changes, encoding_of, penalty, protect
from cutlayer.errors import ConfigError
from cutlayer.message import Batch, Phase, Talk
from cutlayer.recipe import Recipe
from cutlayer.rng import Stream


class Trainee:
    """Models, their optimiser and a random stream: what both kinds of party train with."""

    def __init__(self, name: str, modules: dict[str, nn.Module], recipe: Recipe, stream: Stream) -> None:
        self.name = name
        self.modules = modules
        self.recipe = recipe
        self.stream = stream
        self.parameters = [p for module in modules.values() for p in module.parameters() if p.requires_grad]
        self.optimizer = recipe.optimizer(self.parameters) if self.parameters else None
        self.replaced = False  # whether a defence put another optimiser in its place

    def begin_epoch(self, epoch: int) -> None:
        """Set this epoch's learning rate."""
        if self.optimizer:
            for group in self.optimizer.param_groups:
                group["lr"] = self.recipe.rate(epoch)

    def set_phase(self, phase: Phase) -> None:
        """Switch dropout and batch norm between training and prediction."""
        for module in self.modules.values():
            module.train(phase is Phase.TRAIN)

    def step(self, tensors: list[Tensor], gradients: list[Tensor | None]) -> None:
        """Back-propagate through this party's graph and update its parameters."""
        self.backward(tensors, gradients)
        self.update()

    def backward(self, tensors: list[Tensor], gradients: list[Tensor | None], retain: bool = False) -> None:
        """Back-propagate through this party's graph."""
        if self.replaced and self.optimizer:
            self.optimizer.zero_grad(set_to_none=True)  # it may hold more than gradients
        for parameter in self.parameters:  # what optimizer.zero_grad does, without its bookkeeping
            parameter.grad = None
        torch.autograd.backward(tensors, gradients, retain_graph=retain)

    def update(self) -> None:
        """Update the parameters by their gradients."""
        if self.optimizer:
            if self.recipe.clip is not None:
                nn.utils.clip_grad_norm_(self.parameters, self.recipe.clip)
            self.optimizer.step()


def _graph(phase: Phase) -> AbstractContextManager[object]:
    return nullcontext() if phase is Phase.TRAIN else torch.no_grad()


class Defended(Trainee):
    """A trainee with defences: each hook keeps only the defences that override it."""

    def __init__(
        self,
        name: str,
        modules: dict[str, nn.Module],
        *,
        cut: Cut,
        roster: Roster,
        recipe: Recipe,
        stream: Stream,
        setting: Setting,
        defences: Sequence[Defence] = (),
    ) -> None:
        memory = cut.memory
        super().__init__(name, modules if memory is None else {**modules, "cut": memory}, recipe, stream)
        self.cut = cut
        self.roster = roster
        self.setting = setting
        self.protectors = changes(defences, "protect")
        self.penalties = changes(defences, "penalty")
        self.inspectors = changes(defences, "inspect")
        self.mixers = changes(defences, "inputs")
        self.relabellers = changes(defences, "relabel")
        self.retraces = any(defence.retraces for defence in self.protectors)
        self.encodings = {place: encoding_of(defences, place) for place in Place}
        self._replace_optimiser(changes(defences, "optimiser"))

    def _replace_optimiser(self, defences: Sequence[Defence]) -> None:
        if not (defences and self.optimizer):
            return
        usual = self.optimizer
        setting = replace(self.setting, part="optimiser", rng=self.stream.generator)
        for defence in defences:
            self.optimizer = defence.optimiser(self.optimizer, list(self.modules.values()), setting, self.recipe)
        self.replaced = self.optimizer is not usual
        if self.replaced and self.recipe.clip is not None:
            raise ConfigError(
                f"Expected no clip={self.recipe.clip} beside a defence that clips each row's gradient; leave it out."
            )

    def inputs(self, features: Tensor | SparseRows, batch: Batch) -> Tensor | SparseRows:
        """The batch's rows, as defences leave them."""
        values = features.index_select(0, batch.rows)
        for defence in self.mixers:
            values = defence.inputs(values, self.local(Place.EMBEDDING, batch))
        return values

    def local(self, place: Place, batch: Batch, **known: Any) -> Local:
        """What a defence may know about this batch."""
        known |= {"classes": self.setting.classes, "shared_seed": self.setting.shared_seed}
        return Local(
            place,
            self.stream.generator,
            batch.phase is Phase.TRAIN,
            batch.rows,
            private_seed=self.setting.private_seed,
            **known,
        )


class FeatureParty(Defended):
    """Holds columns and a bottom model; sends embeddings, learns from their gradients."""

    def __init__(
        self, name: str, features: Tensor | SparseRows, bottom: nn.Module, *, cut: Cut, setting: Setting, **common: Any
    ) -> None:
        bottom = cut.begin(setting, bottom) or bottom
        super().__init__(name, {"bottom": bottom}, cut=cut, setting=setting, **common)
        self.features = features
        self.bottom = bottom

    def embed(self, inputs: Tensor | SparseRows, phase: Phase) -> Tensor:
        """Run the bottom."""
        return cast(Tensor, self.bottom(inputs))

    def talk(self, batch: Batch) -> Talk[None]:
        """Embed, protect, send; in training, learn from the gradient through that same live graph."""
        inputs = self.inputs(self.features, batch)
        extra = None
        with self.stream.scope(), _graph(batch.phase):
            sent = self.embed(inputs, batch.phase)
        if self.protectors or self.penalties:
            local = self.local(Place.EMBEDDING, batch, inputs=inputs)
            with _graph(batch.phase):
                raw = sent
                sent = protect(self.protectors, raw, local)
                extra = penalty(self.penalties, raw, local) if local.training else None
        encoding = self.encodings[Place.EMBEDDING]
        gradient = yield from self.cut.offer(self.name, self.roster, batch, sent.detach(), encoding)
        if gradient is None:
            return
        if extra is None:
            self.step([sent], [gradient])
        else:
            self.step([sent, extra], [gradient, None])


class LabelParty(Defended):
    """Holds the labels, the top model and perhaps columns of its own; answers with gradients."""

    def __init__(
        self,
        name: str,
        labels: Tensor,
        top: nn.Module,
        *,
        cut: Cut,
        setting: Setting,
        features: Tensor | SparseRows | None = None,
        bottom: nn.Module | None = None,
        **common: Any,
    ) -> None:
        bottom = cut.begin(setting, bottom)
        own = {} if bottom is None else {"bottom": bottom}
        super().__init__(name, {**own, "top": top}, cut=cut, setting=setting, **common)
        self.labels = labels
        self.top = top
        self.features = features
        self.bottom = bottom
        self.flags: dict[Phase, list[Tensor]] = {phase: [] for phase in Phase}  # rows that a defence found odd

    def begin_epoch(self, epoch: int) -> None:
        """Set this epoch's learning rate, and forget what the last epoch flagged."""
        super().begin_epoch(epoch)
        self.flags[Phase.TRAIN] = []

    def talk(self, batch: Batch) -> Talk[Tensor]:
        """Gather embeddings and run the top; in training, update and send gradients. Returns logits or loss."""
        own = None
        if self.bottom is not None and self.features is not None:
            inputs = self.inputs(self.features, batch)
            with self.stream.scope(), _graph(batch.phase):
                own = self.bottom(inputs)
        meeting = yield from self.cut.gather(self.roster, batch, own)
        for inspector in self.inspectors:
            odd = inspector.inspect(meeting.arrived, own, self.local(Place.EMBEDDING, batch))
            if odd is not None:
                self.flags[batch.phase].append(batch.rows[odd].cpu())
        with self.stream.scope(), _graph(batch.phase):
            outputs = self.top(meeting.joint)
        if batch.phase is not Phase.TRAIN:
            return cast(Tensor, outputs)
        targets = self._targets(outputs, batch)
        loss = loss_of(outputs, targets)
        if self.penalties:
            for name, embedding in meeting.arrived.items():
                local = self.local(Place.EMBEDDING, batch, labels=targets, peer=name)
                if (extra := penalty(self.penalties, embedding, local)) is not None:
                    loss = loss + extra / len(meeting.arrived)
        if self.protectors:
            self._backward_protected(loss, outputs, self.local(Place.LOGITS, batch, labels=targets))
        else:
            self.backward([loss], [None])
        gradients = {name: leaf.grad for name, leaf in meeting.arrived.items() if leaf.grad is not None}
        yield from self.cut.settle(self.roster, batch, gradients)
        if self.protectors:
            for name, gradient in gradients.items():
                known = {"labels": targets, "peer": name}
                if self.retraces:
                    retrace = partial(_retrace, outputs, meeting.arrived[name])
                    known |= {"retrace": retrace, "outputs": outputs.detach()}
                local = self.local(Place.GRADIENT, batch, **known)
                gradients[name] = protect(self.protectors, gradient, local)
        self.update()
        yield from self.cut.scatter(self.roster, batch, gradients, self.encodings[Place.GRADIENT])
        return loss.detach()

    def _targets(self, outputs: Tensor, batch: Batch) -> Tensor:
        """The batch's labels, as defences leave them."""
        targets = self.labels.index_select(0, batch.rows)
        for defence in self.relabellers:
            targets = defence.relabel(targets, outputs.detach(), self.local(Place.LOGITS, batch, top=self.top))
        return targets

    def _backward_protected(self, loss: Tensor, outputs: Tensor, local: Local) -> None:
        """Let defences change the gradient at the logits, then carry it on through top and own bottom."""
        handle = outputs.register_hook(lambda gradient: protect(self.protectors, gradient, local))
        self.backward([loss], [None], retain=self.retraces)
        handle.remove()


def _retrace(outputs: Tensor, embedding: Tensor, gradient: Tensor) -> Tensor:
    """The gradient at an embedding, given another one at the logits."""
    return torch.autograd.grad(outputs, embedding, gradient, retain_graph=True)[0]


def loss_of(outputs: Tensor, targets: Tensor) -> Tensor:
    """Cross-entropy for classes (or for a row of weights per class), squared error for a single number."""
    if outputs.shape[1] == 1:
        return mse_loss(outputs[:, 0], targets)
    return cross_entropy(outputs, targets)
