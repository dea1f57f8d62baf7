"""What attacks share that practise on shadow data: an attacker's own records, and a network that reads them.

A party need not have written anything down. From how it began, the gradients that it received and the recipe that all
agreed on, it lives its training again (`relive`), and every step gives a record of each row of the batch.
"""

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice, pairwise
from math import ceil
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Generator, Tensor, nn
from torch.nn.utils import vector_to_parameters

from cutlayer._validate import at_least, one_of, positive
from cutlayer.attack import Asks, Attack
from cutlayer.blocks.secret_parts import without_secrets
from cutlayer.blocks.sparse import SparseRows
from cutlayer.defence import Role
from cutlayer.errors import ConfigError, Inapplicable
from cutlayer.message import Kind
from cutlayer.rng import Stream, generator
from cutlayer.transcript import Scratch
from cutlayer.view import Moment, Shadow, View

BATCH = 64
PATIENCE = 5  # rounds without a lower error on what is held out
HELD_OUT = 10  # one shadow row in so many is not trained on but says when to stop
FAR = 10.0  # standard deviations: numbers further out say no more than that
Parameters = Literal["all", "difference", "none"]


@dataclass(frozen=True)
class Step:
    """One training step as the attacker saw it."""

    rows: Tensor
    gradient: Tensor  # as it was received
    before: Tensor  # own embeddings, under the weights before the step
    after: Tensor  # and after it
    weights: Tensor  # own parameters before the step, flat
    updated: Tensor  # and after it
    slopes: Tensor  # the gradient of own parameters, flat, before it is clipped
    inputs: Tensor


def relive(view: View, *, first_only: bool = False) -> Iterator[Step]:
    """Train the attacker's own bottom again, from its start, on the gradients that it received.

    This is its own past exactly, unless a defence of its own changes how it learns.
    """
    own, recipe = view.own[view.attacker].start, view.manifest.recipe
    if own is None:
        raise Inapplicable("needs a bottom model of the attacker's own")
    channel = view.channel(Kind.GRADIENT, peer=view.attacker)
    epochs = channel.entries["epoch"]
    if not len(epochs) or epochs[0] != 0:
        raise Inapplicable("needs the first epoch's messages: train with --keep ends or all")
    begun = own()
    if isinstance(begun.features, SparseRows):
        raise Inapplicable("dense-only")
    bottom, features = begun.bottom.cpu(), begun.features.cpu()
    parameters = [p for p in bottom.parameters() if p.requires_grad]
    optimizer = recipe.optimizer(parameters) if parameters else None
    for number, message in enumerate(channel.messages()):
        epoch = int(epochs[number])
        if epoch > (0 if first_only else int(epochs[max(0, number - 1)]) + 1):
            return  # what came between was not kept
        inputs, gradient = features[message.batch.rows], message.payload
        with begun.stream.scope():
            sent = bottom.train()(inputs)
        weights, slopes = _flat(parameters), torch.empty(0)
        if optimizer is not None:
            for group in optimizer.param_groups:
                group["lr"] = recipe.rate(epoch)
            optimizer.zero_grad()
            sent.backward(gradient.view_as(sent).to(sent))
            slopes = _flat([torch.zeros_like(p) if p.grad is None else p.grad for p in parameters])
            if recipe.clip is not None:
                nn.utils.clip_grad_norm_(parameters, recipe.clip)
            optimizer.step()
        with torch.no_grad(), copy.deepcopy(begun.stream).scope():  # a look that its past did not take
            after = bottom.eval()(inputs)
        yield Step(message.batch.rows, gradient, sent.detach(), after, weights, _flat(parameters), slopes, inputs)


def course(view: View, count: int) -> tuple[Moment, ...]:
    """The first training steps of a view's party: its bottom before each, and the gradients of its parameters."""
    start, moments = view.own[view.attacker].start, list[Moment]()
    for step in islice(relive(view, first_only=True), count):
        assert start is not None  # or there was nothing to relive
        bottom = without_secrets(start().bottom.cpu(), generator(0, "passports"))
        learned = {name: p for name, p in bottom.named_parameters() if p.requires_grad}
        vector_to_parameters(step.weights, learned.values())
        parts = step.slopes.split([p.numel() for p in learned.values()])
        slopes = {name: part.view_as(p) for (name, p), part in zip(learned.items(), parts, strict=True)}
        moments.append(Moment(step.rows, bottom, slopes))
    return tuple(moments)


def _flat(parameters: Sequence[Tensor]) -> Tensor:
    return torch.cat([p.detach().flatten() for p in parameters]) if parameters else torch.empty(0)


@dataclass(frozen=True)
class Records:
    """Records of many steps: numbers of each row, and numbers that all rows of a step share (parameters), once."""

    rows: Tensor
    steps: Tensor  # which line of `shared` belongs to a record
    each: Tensor  # gradient, embedding before and after, own columns
    shared: Tensor  # parameters before and after; or their difference; or nothing
    columns: int  # of the attacker's own, last in `each`
    scratch: Scratch | None = None  # holds the files that these are maps of

    @property
    def width(self) -> int:
        """Numbers in a record."""
        return self.each.shape[1] + self.shared.shape[1]

    def to(self, device: torch.device) -> "Records":
        """The same on a device."""
        moved = [t.to(device) for t in (self.rows, self.steps, self.each, self.shared)]
        return Records(moved[0], moved[1], moved[2], moved[3], self.columns, self.scratch)

    def take(self, chosen: Tensor) -> Tensor:
        """Whole records: gradient, embedding before, after, parameters before, after, own columns."""
        return self.joined(self.each[chosen], self.shared[self.steps[chosen]])

    def joined(self, each: Tensor, shared: Tensor) -> Tensor:
        """Put both kinds of numbers in their order."""
        front = each.shape[-1] - self.columns
        return torch.cat([each[..., :front], shared, each[..., front:]], dim=-1)


def records(views: Iterable[View], parameters: Parameters, *, first_only: bool = False) -> Records:
    """Live runs again and write their records to files, which are read through memory maps.

    A gradient is multiplied by its batch's size, since the loss is a mean over the batch.
    """
    scratch, rows, steps = Scratch(), list[Tensor](), list[Tensor]()
    paths = scratch.path / "each", scratch.path / "shared"
    width, columns = [0, 0], 0
    with paths[0].open("wb") as each, paths[1].open("wb") as shared:
        for step in chain.from_iterable(relive(view, first_only=first_only) for view in views):
            line, both = _line(step), _shared(step, parameters)
            width, columns = [line.shape[1], len(both)], step.inputs[0].numel()
            each.write(line.contiguous().numpy().data)
            shared.write(both.numpy().data)
            steps.append(torch.full((len(step.rows),), len(rows)))
            rows.append(step.rows)
    maps = [
        torch.from_numpy(np.memmap(path, np.float32, "c").reshape(-1, size)) if size else torch.empty(len(rows), 0)
        for path, size in zip(paths, width, strict=True)
    ]
    return Records(torch.cat(rows), torch.cat(steps), maps[0], maps[1], columns, scratch)


def _line(step: Step) -> Tensor:
    parts = (step.gradient.float() * len(step.rows), step.before, step.after, step.inputs.float())
    return torch.cat([part.flatten(1).cpu() for part in parts], dim=1)


def _shared(step: Step, parameters: Parameters) -> Tensor:
    if parameters == "all":
        return torch.cat([step.weights, step.updated])
    return step.updated - step.weights if parameters == "difference" else torch.empty(0)


class Reader:
    """A network (ReLU, He's uniform start) from standardised records to classes or to a row of the victim's."""

    def __init__(self, hidden: Sequence[int], practised: Records, classes: int = 0, device: str = "cpu") -> None:
        self.hidden, self.practised, self.classes, self.device = hidden, practised, classes, torch.device(device)
        scales = [_standard(part) for part in (practised.each, practised.shared)]
        self.middle, self.spread = (practised.joined(*both).to(device) for both in zip(*scales, strict=True))

    def learn(self, truth: Tensor, rounds: int, rate: float) -> "Reader":
        """Fit to the truth of shadow rows; keep the round that did best on rows held out. Draws from torch's stream."""
        known, values = self.practised.to(self.device), (truth if self.classes else truth.flatten(1)).to(self.device)
        layers: list[nn.Module] = []
        for size, after in pairwise((known.width, *self.hidden, self.classes or values.shape[1])):
            layers += [_he(nn.Linear(size, after)), nn.ReLU()]
        if not self.classes:  # or a wide row of numbers would start far off, and units die on the way back
            nn.init.zeros_(layers[-2].weight)  # type: ignore[arg-type]
        self.net = nn.Sequential(*layers[:-1]).to(self.device)
        out = torch.isin(self.practised.rows, torch.randperm(len(truth))[: max(1, len(truth) // HELD_OUT)])
        used, held = (~out).nonzero()[:, 0], out.nonzero()[:, 0].to(self.device)
        loss = nn.CrossEntropyLoss() if self.classes else nn.MSELoss()
        optimizer = torch.optim.Adam(self.net.parameters(), lr=rate)
        best, kept, since = torch.inf, copy.deepcopy(self.net.state_dict()), 0
        for _ in range(rounds):
            for part in used[torch.randperm(len(used))].to(self.device).split(BATCH):
                optimizer.zero_grad()
                loss(self.net(self._scaled(known, part)), values[known.rows[part]]).backward()
                optimizer.step()
            error = float(loss(self._outputs(known, held), values[known.rows[held]]))
            since += 1
            if error < best:
                best, kept, since = error, copy.deepcopy(self.net.state_dict()), 0
            if since == PATIENCE:
                break
        self.net.load_state_dict(kept)
        return self

    def read(self, found: Records) -> Tensor:
        """What records say: a class each, or a row."""
        outputs = self._outputs(found.to(self.device), torch.arange(len(found.rows), device=self.device)).cpu()
        return outputs.argmax(dim=1) if self.classes else outputs

    @torch.no_grad()
    def _outputs(self, found: Records, chosen: Tensor) -> Tensor:
        return torch.cat([self.net(self._scaled(found, part)) for part in chosen.split(1024)])

    def _scaled(self, found: Records, chosen: Tensor) -> Tensor:
        """Records with mean 0 and spread 1 over those practised on."""
        return ((found.take(chosen) - self.middle) / self.spread).clamp(-FAR, FAR)


def _he(layer: nn.Linear) -> nn.Linear:
    nn.init.kaiming_uniform_(layer.weight, nonlinearity="relu")
    nn.init.zeros_(layer.bias)
    return layer


def _standard(lines: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and spread of each number; where nothing varies, the spread is 1."""
    middle = lines.mean(dim=0)
    spread = (lines - middle).square().mean(dim=0).sqrt()
    floor = 1e-6 * spread.max() if len(spread) else 0.0
    return middle, spread.where(spread > floor, 1.0)


class Practised(Attack):
    """An attack that rehearses on shadow data, learns to read its own records there, and reads the run's."""

    by: ClassVar[Role] = Role.FEATURE_PARTY
    hidden: ClassVar[tuple[int, ...]]

    def __init__(
        self,
        *,
        shadow: int = 1000,
        runs: int = 20,
        epochs: int | None = None,
        rounds: int = 50,
        rate: float = 3e-4,
        start: Literal["own", "shared"] = "own",
        parameters: Parameters = "none",
        adaptive: bool = True,
    ) -> None:
        at_least("shadow", shadow, 2)
        for name, count in (("runs", runs), ("epochs", epochs or 1), ("rounds", rounds)):
            at_least(name, count, 1)
        positive("rate", rate)
        one_of("start", start, ("own", "shared"))
        one_of("parameters", parameters, ("all", "difference", "none"))
        self.shadow = shadow
        self.runs = runs
        self.epochs = epochs
        self.rounds = rounds
        self.rate = rate
        self.start = start
        self.parameters: Parameters = parameters
        self.adaptive = adaptive

    @property
    def asks(self) -> Asks:
        """Shadow rows, and perhaps everyone's first weights."""
        return Asks(shadow=self.shadow, start=self.start == "shared")

    def practise(
        self, view: View, rng: Generator, truth: Callable[[Shadow], Tensor], classes: int = 0
    ) -> tuple[Tensor, Tensor]:
        """Rows of the first epoch, and what their records say of `truth(shadow)`."""
        shadow = view.hints.shadow
        if shadow is None:
            raise ConfigError(f"Expected shadow data for {self.name}: complete rows that are not trained on.")
        seeds = torch.randint(2**31, (self.runs + 1,), generator=rng).tolist()
        target = records([view], self.parameters, first_only=True)
        batch = min(view.manifest.recipe.batch_size, len(shadow.labels))
        steps = int(target.steps[-1]) + 1  # a rehearsal should reach the same stage of training
        epochs = self.epochs or ceil(steps * batch / len(shadow.labels))
        rehearsals = (shadow.rehearse(seed, epochs, self.adaptive) for seed in seeds[1:])
        practised = records(rehearsals, self.parameters)
        if practised.width != target.width:
            raise Inapplicable("the defence changes the width of messages: adaptive shadows only")
        own = view.own[view.attacker].bottom
        device = next((str(p.device) for p in own.parameters()), "cpu") if own is not None else "cpu"
        with Stream(seeds[0], "practise").scope():
            reader = Reader(self.hidden, practised, classes, device).learn(truth(shadow), self.rounds, self.rate)
            values = reader.read(target)
        return target.rows, values
