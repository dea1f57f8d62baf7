"""FeatureParty, LabelParty: they compute. They never do I/O and never see another party's rows.

`talk` is a party's part of one batch, written top to bottom as the protocol reads (see
message.Talk). Who carries the messages, a loop in this process or a network, is not a
party's business.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from copy import copy, deepcopy
from dataclasses import dataclass, replace
from functools import partial
from typing import Self, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, mse_loss

from cutlayer.blocks.sparse import SparseRows
from cutlayer.cut import Cut, Gathered, Roster
from cutlayer.defence import Defence, Local, Place, Setting, Subject, changes, encoding_of, penalty, protect
from cutlayer.errors import ConfigError
from cutlayer.message import Batch, Phase, Talk
from cutlayer.recipe import Recipe
from cutlayer.rng import Stream


@dataclass(frozen=True, slots=True)
class Equipment:
    """What every party needs beside its own data and models."""

    cut: Cut
    roster: Roster
    recipe: Recipe
    stream: Stream
    setting: Setting
    defences: Sequence[Defence] = ()


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

    def __init__(self, name: str, modules: dict[str, nn.Module], equipment: Equipment) -> None:
        cut, defences = equipment.cut, equipment.defences
        memory = {} if cut.memory is None else {"cut": cut.memory}
        super().__init__(name, {**modules, **memory}, equipment.recipe, equipment.stream)
        self.cut = cut
        self.roster = equipment.roster
        self.setting = equipment.setting
        self.find_rows: Callable[[Tensor], Tensor] | None = None  # where its rows have other numbers than a batch's
        self.batchers = changes(defences, "batch")
        self.protectors = changes(defences, "protect")
        self.penalties = changes(defences, "penalty")
        self.inspectors = changes(defences, "inspect")
        self.encodings = {place: encoding_of(defences, place) for place in Place}
        self._replace_optimiser(changes(defences, "optimiser"))

    def _replace_optimiser(self, defences: Sequence[Defence]) -> None:
        if not (defences and self.optimizer):
            return
        usual = self.optimizer
        setting = replace(self.setting, subject=Subject.OPTIMISER, rng=self.stream.draws)
        for defence in defences:
            self.optimizer = defence.optimiser(self.optimizer, list(self.modules.values()), setting, self.recipe)
        self.replaced = self.optimizer is not usual
        if self.replaced and self.recipe.clip is not None:
            raise ConfigError(
                f"Expected no clip={self.recipe.clip} beside a defence that clips each row's gradient; leave it out."
            )

    def replica(self) -> Self:
        """The same party, with a random stream of its own that goes on from here."""
        replica = copy(self)
        replica.stream = deepcopy(self.stream)
        return replica

    def inputs(self, features: Tensor | SparseRows, batch: Batch) -> Tensor | SparseRows:
        """The batch's rows, as defences leave them."""
        values = features.index_select(0, self.find_rows(batch.rows) if self.find_rows else batch.rows)
        for defence in self.batchers:
            values = defence.batch(values, self.local(Place.INPUTS, batch))
        return values

    def local(self, place: Place, batch: Batch) -> Local:
        """What every defence may know about this batch."""
        return Local(
            place,
            self.stream.draws,
            batch.phase is Phase.TRAIN,
            batch.rows,
            classes=self.setting.classes,
            shared_seed=self.setting.shared_seed,
            private_seed=self.setting.private_seed,
            course=self.setting.course,
        )


class FeatureParty(Defended):
    """Holds columns and a bottom model; sends embeddings, learns from their gradients."""

    def __init__(self, name: str, features: Tensor | SparseRows, bottom: nn.Module, equipment: Equipment) -> None:
        bottom = equipment.cut.begin(equipment.setting, bottom) or bottom
        super().__init__(name, {"bottom": bottom}, equipment)
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
            local = replace(self.local(Place.EMBEDDING, batch), inputs=inputs)
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
        equipment: Equipment,
        *,
        features: Tensor | SparseRows | None = None,
        bottom: nn.Module | None = None,
    ) -> None:
        bottom = equipment.cut.begin(equipment.setting, bottom)
        own = {} if bottom is None else {"bottom": bottom}
        super().__init__(name, {**own, "top": top}, equipment)
        self.labels = labels
        self.top = top
        self.features = features
        self.bottom = bottom
        self.flags: dict[Phase, list[Tensor]] = {phase: [] for phase in Phase}  # rows that a defence flagged

    def replica(self) -> Self:
        """The same party, with a stream and flags of its own."""
        replica = super().replica()
        replica.flags = {phase: list(flags) for phase, flags in self.flags.items()}
        return replica

    def begin_epoch(self, epoch: int) -> None:
        """Set this epoch's learning rate, and forget what the last epoch flagged."""
        super().begin_epoch(epoch)
        self.flags[Phase.TRAIN] = []

    def talk(self, batch: Batch) -> Talk[Tensor]:
        """Gather embeddings and run the top; in training, update and send gradients. Returns logits or loss."""
        own = self._own_embedding(batch)
        gathered = yield from self.cut.gather(self.roster, batch, own)
        self._inspect(gathered, own, batch)
        with self.stream.scope(), _graph(batch.phase):
            outputs: Tensor = self.top(gathered.joint)
        if batch.phase is not Phase.TRAIN:
            return outputs
        targets = self._targets(outputs.detach(), batch)
        loss = self._loss(outputs, targets, gathered, batch)
        self._backward(loss, outputs, targets, batch)
        gradients = {name: leaf.grad for name, leaf in gathered.arrived.items() if leaf.grad is not None}
        yield from self.cut.settle(self.roster, batch, gradients)
        if self.protectors:
            local = replace(self.local(Place.GRADIENT, batch), labels=targets, outputs=outputs.detach())
            for name, gradient in gradients.items():
                retrace = partial(_retrace, outputs, gathered.arrived[name])
                gradients[name] = protect(self.protectors, gradient, replace(local, peer=name, retrace=retrace))
        self.update()
        yield from self.cut.scatter(self.roster, batch, gradients, self.encodings[Place.GRADIENT])
        return loss.detach()

    def _own_embedding(self, batch: Batch) -> Tensor | None:
        """What the label party's own columns add, if it has any."""
        if self.bottom is None or self.features is None:
            return None
        inputs = self.inputs(self.features, batch)
        with self.stream.scope(), _graph(batch.phase):
            return cast(Tensor, self.bottom(inputs))

    def _inspect(self, gathered: Gathered, own: Tensor | None, batch: Batch) -> None:
        """Let defences refuse what arrived, or flag rows of it."""
        for inspector in self.inspectors:
            odd = inspector.inspect(gathered.arrived, own, self.local(Place.EMBEDDING, batch))
            if odd is not None:
                self.flags[batch.phase].append(batch.rows[odd].cpu())

    def _targets(self, outputs: Tensor, batch: Batch) -> Tensor:
        """The batch's labels, as defences leave them."""
        targets: Tensor | SparseRows = self.labels.index_select(0, batch.rows)
        for defence in self.batchers:
            local = replace(self.local(Place.LABELS, batch), outputs=outputs, top=self.top)
            targets = defence.batch(targets, local)
        assert isinstance(targets, Tensor)
        return targets

    def _loss(self, outputs: Tensor, targets: Tensor, gathered: Gathered, batch: Batch) -> Tensor:
        """The loss, with the terms that defences add for each embedding that arrived."""
        loss = loss_of(outputs, targets)
        if self.penalties:
            for name, embedding in gathered.arrived.items():
                local = replace(self.local(Place.EMBEDDING, batch), labels=targets, peer=name)
                if (extra := penalty(self.penalties, embedding, local)) is not None:
                    loss = loss + extra / len(gathered.arrived)
        return loss

    def _backward(self, loss: Tensor, outputs: Tensor, targets: Tensor, batch: Batch) -> None:
        """Back-propagate; defences change the gradient at the logits, and the graph stays for `Local.retrace`."""
        if not self.protectors:
            self.backward([loss], [None])
            return
        local = replace(self.local(Place.LOGITS, batch), labels=targets)
        handle = outputs.register_hook(lambda gradient: protect(self.protectors, gradient, local))
        self.backward([loss], [None], retain=True)
        handle.remove()


def _retrace(outputs: Tensor, embedding: Tensor, gradient: Tensor) -> Tensor:
    """The gradient at an embedding, given another one at the logits."""
    return torch.autograd.grad(outputs, embedding, gradient, retain_graph=True)[0]


def loss_of(outputs: Tensor, targets: Tensor) -> Tensor:
    """Cross-entropy for classes (or for a row of weights per class), squared error for a single number."""
    if outputs.shape[1] == 1:
        return mse_loss(outputs[:, 0], targets)
    return cross_entropy(outputs, targets)
