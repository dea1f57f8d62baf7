"""Gradient inversion: search for a batch whose gradient is the one that a client sent."""

import copy
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from operator import itemgetter
from typing import ClassVar, Literal, get_args

import torch
from torch import Generator, Tensor, nn
from torch.nn.functional import cosine_similarity

from cutlayer._validate import at_least, non_negative, one_of, positive
from cutlayer.attack import Asks, Attack, Form, Guess, Target
from cutlayer.attacks.tools.batched_gradients import Factors, Weights, Whole, gradients
from cutlayer.attacks.tools.inversion import is_image, total_variation
from cutlayer.attacks.tools.lbfgs import minimise
from cutlayer.blocks.passport import layer_input, passport_layers
from cutlayer.blocks.weights import places, unpack
from cutlayer.defence import Place, Role
from cutlayer.defences.insta_hide import Instahide
from cutlayer.defences.sparsification import Sparsification
from cutlayer.draws import Draws
from cutlayer.errors import ConfigError, Inapplicable
from cutlayer.message import Kind, Message
from cutlayer.rng import Stream
from cutlayer.view import Manifest, View

Method = Literal["dlg", "cosine"]
Knows = Literal["bottom", "form"]
PassportUse = Literal["guess", "fit"]

SMALL = 1e-3  # of the largest entry of a gradient: below it, entries count less
SURE = 20.0  # logit of a label that is known
LARGEST = 2**25  # numbers (attempts x parameters) in memory at once: 8 AlexNets of 4 million, several times 0.1 GB
COPIES = 100  # of each number of a guess, which count as well: activations, and the history of a search


class GradientInversion(Attack):
    """Search for the rows behind a client's gradient, as the server of horizontal learning can (FedAdOb's WGI and BGI).

    A batch of guessed rows goes through the model with the weights that the client was sent, and the guess is changed
    until its gradient is like the one that came back. `method=dlg`: squared distance, L-BFGS (Zhu et al.); with
    `relative` each entry's error counts against the entry, or the few large ones of the last layer would be all that
    is looked at. `method=cosine`: one minus the cosine plus `tv` times the total variation, Adam on the sign of the
    gradient with a falling rate, inside [0, 1] (Geiping et al., Inverting Gradients). Of a single row the label is
    read off the gradient of the last bias, which is negative for it alone (iDLG); labels of more are guessed along.
    Under `sparsification` only entries that were sent count. Under `instahide` a picture's signs are searched for as
    well, and then dropped. The best of `restarts` random starts counts after `steps` steps (`lr` is Adam's rate),
    by its objective; all starts for all messages run at once, each on a path of its own. ReLU has no second
    derivative for L-BFGS to use: there, cosine is the better one.

    `knows=bottom`: a bottom that is not shared is known but for its passports (white box). `knows=form`: its weights
    are drawn anew (black box). A bottom that is shared is known either way. Passports and their means are guessed
    once per start (`passports=guess`, FedAdOb's attacker); with `passports=fit`, what they scale and shift by is
    searched for, too.

    Sees: the last `messages` updates that the client sent, and the weights that it was sent before each; a bottom of
    its own was nearest then to the one that is known.
    Needs: gradients, not weights after many steps; the number of rows behind an update; the shape of a row.
    Cost: 20 to 40 s on MNIST on a CPU, 2 minutes on CIFAR-10 on a GPU, for 10 messages and 1,000 steps
    (results/fedadob-horizontal).
    Specification: baselines, section 5; fedadob, section 4.
    Paper: Zhu et al., Deep Leakage from Gradients (NeurIPS 2019); Geiping et al., Inverting Gradients (NeurIPS 2020).
    """

    target: ClassVar[Target] = Target.FEATURES
    by: ClassVar[Role] = Role.LABEL_PARTY
    settings: ClassVar[tuple[str, ...]] = ("messages=1,steps=200,method=cosine", "messages=4,method=cosine")

    def __init__(
        self,
        *,
        method: Method = "dlg",
        knows: Knows = "bottom",
        passports: PassportUse = "guess",
        messages: int = 4,
        steps: int = 300,
        restarts: int = 2,
        lr: float = 0.1,
        tv: float = 0.0,
        relative: bool = True,
    ) -> None:
        one_of("method", method, get_args(Method))
        one_of("knows", knows, get_args(Knows))
        one_of("passports", passports, get_args(PassportUse))
        for name, count in (("messages", messages), ("steps", steps), ("restarts", restarts)):
            at_least(name, count, 1)
        positive("lr", lr)
        non_negative("tv", tv)
        self.method = method
        self.knows = knows
        self.passports = passports
        self.messages = messages
        self.steps = steps
        self.restarts = restarts
        self.lr = lr
        self.tv = tv
        self.relative = relative

    @property
    def asks(self) -> Asks:
        """The client's bottom, or its form."""
        return Asks(bottom=self.knows == "bottom", form=self.knows == "form")

    def applies(self, manifest: Manifest) -> str | None:
        """Vertical learning shares no weights."""
        return None if manifest.shares else "horizontal-only"

    def run(self, view: View, rng: Generator) -> Guess:
        """Invert all updates at once, except those with other numbers of rows or too large for memory."""
        sent = {m.batch.step: m for m in _messages(view, Kind.UPDATE) if m.sender == view.victim}
        given = {m.batch.step: m for m in _messages(view, Kind.WEIGHTS) if m.receiver == view.victim}
        steps = sorted(set(sent) & set(given))[-self.messages :]
        if not steps:
            raise Inapplicable("gradients-only: clients sent weights")
        if view.victim not in view.hints.shapes:
            raise ConfigError(f"Expected the shape of a row as a hint; {self.name} needs it.")
        shape, attempts = view.hints.shapes[view.victim], []
        for step in steps:
            model, shared = self._model(view, given[step].payload)
            size = len(sent[step].batch.rows), *shape
            with self._stream(model, rng).scope():
                attempts += self._attempts(model, shared, sent[step].payload, size, view.manifest)
        with self._stream(model, rng).scope():  # models may draw numbers of their own
            values = self._solve(model, list(shared), attempts, view.manifest)
        return Guess(
            torch.cat([sent[step].batch.rows for step in steps]),
            torch.cat(values).float().cpu(),
            Form.VALUES,
            groups=torch.cat([torch.full((len(sent[step].batch.rows),), step) for step in steps]),
            unordered=True,
        )

    def _stream(self, model: nn.Module, rng: Generator) -> Stream:
        seed = int(torch.randint(2**62, (), generator=rng))
        return Stream(seed, "gradient-inversion", device=next(model.parameters()).device)

    def _model(self, view: View, weights: Tensor) -> tuple[Whole, dict[str, slice]]:
        """The client's model as far as the server knows it, and where the shared parameters lie in the vector."""
        own, victim = view.own[view.attacker], view.victim
        bottom = own.bottom or (view.hints.bottoms if self.knows == "bottom" else view.hints.forms)[victim]
        if own.top is None:
            raise ConfigError("Expected the server to attack; it alone holds what is shared.")
        device = next(own.top.parameters()).device  # a bottom that came as a hint may be elsewhere
        model = copy.deepcopy(Whole(bottom, own.top)).to(device).eval().requires_grad_(False)
        shared = [getattr(model, part) for part in view.manifest.shares]
        unpack(weights.to(device), shared)
        where = {id(parameter): place for place, parameter in places(shared)}
        for layer in model.modules():
            if isinstance(layer, nn.BatchNorm1d | nn.BatchNorm2d):  # by the statistics of the batch, as in training
                layer.track_running_stats, layer.running_mean, layer.running_var = False, None, None
        return model, {name: where[id(p)] for name, p in model.named_parameters() if id(p) in where}

    def _attempts(
        self, model: Whole, shared: dict[str, slice], update: Tensor, size: tuple[int, ...], manifest: Manifest
    ) -> list["Attempt"]:
        """The starts for one message."""
        if self.method == "dlg":
            model.double()  # second-order steps end early where digits run out
        device, kind = (first := next(model.parameters())).device, first.dtype
        wanted = torch.cat([update[place] for place in shared.values()]).to(device, kind)
        label = _label(model, shared, update) if size[0] == 1 else None
        parts = {name.split(".")[0] for name in shared}
        named = [*model.named_parameters(), *model.named_buffers()]
        weights = {name: tensor for name, tensor in named if name.split(".")[0] in parts and tensor.is_floating_point()}
        attempts = []
        for _ in range(self.restarts):
            if is_image(size[1:]):
                rows = torch.empty(size, device=device, dtype=kind).uniform_(_least(manifest), 1)
            else:
                rows = torch.randn(size, device=device, dtype=kind)
            labels = torch.randn(size[0], manifest.classes, device=device, dtype=kind)
            if label is not None:
                labels = torch.full_like(labels, -SURE)
                labels[:, label] = SURE
            for layer in passport_layers(model):  # guessed once
                layer.given = None
                layer.forget_secret(Draws(int(torch.randint(2**62, (), device=device)), "guess"))
                layer.given = layer.factors(layer_input(model.bottom, layer, rows))
            factors = [torch.stack(layer.given) for layer in passport_layers(model) if layer.given is not None]
            attempts.append(Attempt(rows, labels, label is not None, weights, factors, wanted))
        return attempts

    def _solve(self, model: Whole, names: list[str], attempts: list["Attempt"], manifest: Manifest) -> list[Tensor]:
        """The best guess for each message; where only some entries of a gradient were sent, judged by those alone."""
        ends: dict[int, tuple[float, Tensor]] = {}
        partial, least = _some_kept(manifest), _least(manifest)
        search = self._squares if self.method == "dlg" else self._cosines
        for chunk in _chunks(attempts):
            alike = [attempts[number] for number in chunk]
            known, fitted = alike[0].known, self.passports == "fit"
            weights = {name: torch.stack([attempt.weights[name] for attempt in alike]) for name in alike[0].weights}
            gradient = gradients(model, names, weights)
            factors = _stacked(attempt.factors for attempt in alike)
            rows, labels, wanted = _stacked([attempt.rows, attempt.labels, attempt.wanted] for attempt in alike)

            kept = (wanted != 0).to(wanted) if partial else torch.ones_like(wanted)

            def like(free: list[Tensor]) -> Tensor:
                """The gradients of guesses, from the parts that are searched for."""
                rest = list(free)
                rows = rest.pop(0)
                return kept * gradient(rows, labels if known else rest.pop(0), rest if fitted else factors)  # noqa: B023

            start = [rows, *([] if known else [labels]), *(factors if fitted else [])]
            guess, values = search(like, start, wanted, least)
            if is_image(tuple(guess.shape[2:])):
                guess = guess.abs()  # signs are not the picture's
            ends |= zip(chunk, zip(values.nan_to_num(torch.inf).tolist(), guess, strict=True), strict=True)
        firsts = range(0, len(attempts), self.restarts)
        return [
            min((ends[first + further] for further in range(self.restarts)), key=itemgetter(0))[1] for first in firsts
        ]

    def _squares(self, gradient: "Like", start: list[Tensor], wanted: Tensor, least: float) -> tuple[Tensor, Tensor]:
        size = wanted.abs().maximum(SMALL * wanted.abs().amax(dim=1, keepdim=True) + 1e-30)
        scale = size.square() * wanted.shape[1] if self.relative else size.square().sum(dim=1, keepdim=True)
        counts = [part[0].numel() for part in start]

        def distance(x: Tensor) -> Tensor:
            free = [piece.view_as(part) for piece, part in zip(x.split(counts, dim=1), start, strict=True)]
            return ((gradient(free) - wanted).square() / scale).sum(dim=1)

        ends, values = minimise(distance, torch.cat([part.flatten(1) for part in start], dim=1), steps=self.steps)
        rows = ends[:, : counts[0]].view_as(start[0])
        return rows.clamp(least, 1) if is_image(tuple(rows.shape[2:])) else rows, values

    def _cosines(self, gradient: "Like", start: list[Tensor], wanted: Tensor, least: float) -> tuple[Tensor, Tensor]:
        free = [part.clone().requires_grad_() for part in start]
        optimizer = torch.optim.Adam(free, lr=self.lr)  # on signs: entry by entry, so no attempt moves another
        ends = [int(share * self.steps) for share in (0.375, 0.625, 0.875)]
        schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, ends, 0.1)
        rows, picture = free[0], is_image(tuple(start[0].shape[2:]))

        def objective() -> Tensor:
            value = 1 - cosine_similarity(gradient(free), wanted, dim=1)
            if self.tv and picture:
                shown = rows.abs() if least < 0 else rows
                value = value + self.tv * total_variation(shown.flatten(0, 1)).view(rows.shape[:2]).mean(dim=1)
            return value

        for _ in range(self.steps):
            for part, slope in zip(free, torch.autograd.grad(objective().sum(), free), strict=True):
                part.grad = slope.sign()
            optimizer.step()
            schedule.step()
            if picture:
                rows.data.clamp_(least, 1)
        with torch.no_grad():
            return rows.detach(), objective()


Like = Callable[[list[Tensor]], Tensor]  # from the parts of guesses that are searched for to attempts x parameters


@dataclass(frozen=True)
class Attempt:
    """One start for one message."""

    rows: Tensor
    labels: Tensor  # logits
    known: bool  # whether the labels are known
    weights: Weights  # sent to the client
    factors: Factors  # guessed
    wanted: Tensor  # the gradient that came back


def _some_kept(manifest: Manifest) -> bool:
    """Whether a gradient's zeros may be entries that were held back."""
    sparse = manifest.uses(Sparsification)
    return sparse is not None and sparse.on == Place.UPDATE.value


def _least(manifest: Manifest) -> float:
    """The least value that a pixel may have: with random signs it is -1."""
    return -1.0 if manifest.uses(Instahide) else 0.0


def _chunks(attempts: list[Attempt]) -> Iterator[list[int]]:
    """Which attempts to run at once: those with as many rows, and not too many for memory."""
    for count in dict.fromkeys(len(attempt.rows) for attempt in attempts):
        alike = [number for number, attempt in enumerate(attempts) if len(attempt.rows) == count]
        attempt = attempts[alike[0]]
        most = max(1, LARGEST // (len(attempt.wanted) + COPIES * attempt.rows.numel()))
        yield from (alike[first : first + most] for first in range(0, len(alike), most))


def _stacked(lists: Iterable[list[Tensor]]) -> list[Tensor]:
    """Attempts on top of each other, entry by entry."""
    return [torch.stack(tensors) for tensors in zip(*lists, strict=True)]


def _label(model: Whole, shared: dict[str, slice], update: Tensor) -> int | None:
    """The label of a single row: where the gradient of the last bias is least (Zhao et al., iDLG)."""
    last = [n for n, layer in model.named_modules() if isinstance(layer, nn.Linear) and layer.bias is not None][-1:]
    place = shared.get(f"{last[0]}.bias") if last else None
    return None if place is None else int(update[place].argmin())


def _messages(view: View, kind: Kind) -> list[Message]:
    return [m for channel in view.channels if channel.kind is kind for m in channel.messages()]
