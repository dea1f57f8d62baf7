"""Client: trains on its own rows and sends what is shared of its model; a private bottom never leaves it."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import torch
from torch import Tensor, nn

from cutlayer.blocks.weights import pack, places, unpack
from cutlayer.defence import Place, protect
from cutlayer.horizontal.server import ClientAnswer
from cutlayer.message import Batch, Kind, Message, Phase
from cutlayer.party import Defended, Equipment, loss_of
from cutlayer.rng import generator
from cutlayer.session import batches

Record = Callable[[Message], None]
PREDICTION_ROWS = 1024


class Client(Defended):
    """Holds rows, labels, a bottom and a top; shares the modules named in `shares`.

    Every round it takes over the shared weights, trains on its rows (`passes` over all, or one batch if it sends
    gradients) and answers. Defences protect what is sent: the change of the weights, or the gradient. With
    `split` (SplitFed) the top is the server's, so embeddings and their gradients cross in every step and are recorded.
    """

    def __init__(
        self,
        name: str,
        features: Tensor,
        labels: Tensor,
        rows: Tensor,
        bottom: nn.Module,
        top: nn.Module,
        equipment: Equipment,
        *,
        server: str = "server",
        shares: tuple[str, ...] = ("top",),
        passes: int = 1,
        split: bool = False,
    ) -> None:
        super().__init__(name, {"bottom": bottom, "top": top}, equipment)
        self.features = features
        self.labels = labels
        self.rows = rows
        self.bottom = bottom
        self.top = top
        self.server = server
        self.shared = [self.modules[part] for part in shares]
        self.passes = passes
        self.split = split
        self.steps = 0
        self.losses: list[Tensor] = []  # of this round

    def fit(self, weights: Tensor, turn: int, record: Record = lambda message: None) -> ClientAnswer:
        """Train from the shared weights on; the weights as this client would have them."""
        weights = self._begin(weights, turn)
        for part in self._batches(turn):
            self._learn(part, record)
            self.update()
        change = self._protected(pack(self.shared) - weights, self.rows)
        return ClientAnswer(weights + change, len(self.rows))

    def gradient(self, weights: Tensor, turn: int) -> tuple[ClientAnswer, Tensor]:
        """Train what is private on one batch; the gradient of what is shared, and the batch's rows.

        Running statistics have no gradient: theirs is what one step of the server needs to put their change in place.
        Defences are given the change itself, or they would take it for large entries of a gradient.
        """
        weights = self._begin(weights, turn)
        part = self._one_batch(turn)
        self._learn(part)
        moved = weights - pack(self.shared)  # nothing has, but for running statistics
        steps = torch.full_like(moved, 1 / self.recipe.rate(turn))
        parameters = {id(p): p for module in self.shared for p in module.parameters()}
        for here, value in places(self.shared):
            if (known := parameters.get(id(value))) is not None:
                steps[here] = 1
                if known.grad is not None:
                    moved[here] = known.grad.flatten()
                    known.grad = None  # the server takes this step
        self.update()
        return ClientAnswer(self._protected(moved, part) * steps, len(part)), part

    def outputs(self, rows: Tensor, record: Record | None = None) -> Tensor:
        """Predict with the own bottom and the shared top; what the bottom says is sent to `record`."""
        self.set_phase(Phase.PREDICT)
        return torch.cat([self._predict(part, record) for part in rows.split(PREDICTION_ROWS)])

    def take(self, weights: Tensor) -> None:
        """Take the shared weights over. Noise that others added may have made a variance negative."""
        unpack(weights.to(self.features.device), self.shared)
        for norm in self._norms():
            if norm.running_var is not None:
                norm.running_var.clamp_(min=0)

    def end(self, weights: Tensor) -> None:
        """Take the last weights over. Behind a bottom of its own the client takes the running statistics of its batch
        norms anew, from its own rows: the average is over what other bottoms say, too."""
        self.take(weights)
        norms = self._norms()
        if any(module is self.bottom for module in self.shared) or not norms or len(self.rows) == 1:
            return
        self.set_phase(Phase.PREDICT)
        usual = [norm.momentum for norm in norms]
        for norm in norms:
            norm.reset_running_stats()
            norm.train()
            norm.momentum = None  # the plain mean over all batches
        for part in self.rows.tensor_split(-(-len(self.rows) // PREDICTION_ROWS)):  # batches of nearly equal size
            self._predict(part)
        for norm, momentum in zip(norms, usual, strict=True):
            norm.momentum = momentum

    def _norms(self) -> list[nn.BatchNorm1d | nn.BatchNorm2d]:
        """The batch norms of what is shared."""
        layers = (layer for module in self.shared for layer in module.modules())
        return [layer for layer in layers if isinstance(layer, nn.BatchNorm1d | nn.BatchNorm2d)]

    def _predict(self, rows: Tensor, record: Record | None = None) -> Tensor:
        batch = Batch(self.steps, Phase.PREDICT, rows)
        self.steps += 1
        with torch.no_grad(), self.stream.scope():
            embedding = self.bottom(self.features.index_select(0, rows.to(self.features.device)))
            embedding = protect(self.protectors, embedding, self.local(Place.EMBEDDING, batch))
            outputs: Tensor = self.top(embedding).cpu()
        if record:
            record(Message(batch, self.name, self.server, Kind.EMBEDDING, embedding.cpu()))
        return outputs

    def _begin(self, weights: Tensor, turn: int) -> Tensor:
        """Take the shared weights over; they are returned, on the client's device."""
        self.take(weights)
        self.begin_epoch(turn)
        self.set_phase(Phase.TRAIN)
        self.losses = []
        if self.optimizer:
            shared = (parameter for module in self.shared for parameter in module.parameters())
            for parameter in shared:  # momentum of weights that others have moved since is no use
                for known in self.optimizer.state.get(parameter, {}).values():
                    if isinstance(known, Tensor):
                        known.zero_()
        return weights.to(self.features.device)

    def _batches(self, turn: int) -> Iterator[Tensor]:
        """Batches of own rows, in an order of the client's own."""
        rng = generator(self.setting.private_seed, "order", turn)
        for _ in range(self.passes):
            order = self.rows[torch.randperm(len(self.rows), generator=rng)]
            for part in batches(order, self.recipe.batch_size):
                yield part.to(self.features.device)

    def _one_batch(self, turn: int) -> Tensor:
        """The batch of a turn: one after the other, in an order that does not change."""
        order = self.rows[torch.randperm(len(self.rows), generator=generator(self.setting.private_seed, "order"))]
        parts = list(batches(order, self.recipe.batch_size))
        return parts[turn % len(parts)].to(self.features.device)

    def _learn(self, rows: Tensor, record: Record = lambda message: None) -> None:
        """One step's gradients."""
        batch = Batch(self.steps, Phase.TRAIN, rows)
        self.steps += 1
        inputs = self.inputs(self.features, batch)
        targets = self.labels.index_select(0, rows)
        with self.stream.scope():
            embedding = self.bottom(inputs)
            if self.protectors:
                embedding = protect(self.protectors, embedding, self.local(Place.EMBEDDING, batch))
            if self.split:
                embedding.retain_grad()
            outputs = self.top(embedding)
        loss = loss_of(outputs, targets)
        if self.protectors:
            local = replace(self.local(Place.LOGITS, batch), labels=targets)
            outputs.register_hook(lambda gradient: protect(self.protectors, gradient, local))
        self.backward([loss], [None])
        self.losses.append(loss.detach())
        if self.split:
            there, back = (self.name, self.server), (self.server, self.name)
            record(Message(batch, *there, Kind.EMBEDDING, embedding.detach()))
            record(Message(batch, *back, Kind.GRADIENT, embedding.grad))

    def _protected(self, payload: Tensor, rows: Tensor) -> Tensor:
        if not self.protectors:
            return payload
        return protect(self.protectors, payload, self.local(Place.UPDATE, Batch(self.steps, Phase.TRAIN, rows)))
