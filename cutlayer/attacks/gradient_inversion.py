"""Gradient inversion: search for a batch whose gradient is the one that a client sent."""

import copy
from collections.abc import Callable
from typing import ClassVar, Literal

import torch
from torch import Generator, Tensor, nn
from torch.nn.functional import cosine_similarity, log_softmax

from cutlayer._validate import at_least, non_negative, one_of, positive
from cutlayer.attack import Asks, Attack, Form, Guess, Target
from cutlayer.defence import Role
from cutlayer.errors import ConfigError, Inapplicable
from cutlayer.imaging import is_image, total_variation
from cutlayer.message import Kind, Message
from cutlayer.passport import layer_input, passport_layers
from cutlayer.rng import Stream
from cutlayer.view import Manifest, View
from cutlayer.weights import places, unpack

SMALL = 1e-3  # of the largest entry of a gradient: below it, entries count less
PATIENCE = 20  # inner steps of a step of L-BFGS


class GradientInversion(Attack):
    """What the server of horizontal learning can see in a client's gradient (FedAdOb's WGI and BGI).

    A batch of guessed rows goes through the model with the weights that the client was sent, and the guess is changed
    until its gradient is like the one that came back. `method=dlg`: squared distance, L-BFGS (Zhu et al.); with
    `relative` each entry's error counts against the entry, or the few large ones of the last layer would be all that
    is looked at. `method=cosine`: one minus the cosine plus `tv` times the total variation, Adam on the sign of the
    gradient with a falling rate, inside [0, 1] (Geiping et al., Inverting Gradients). Of a single row the label is
    read off the gradient of the last bias, which is negative for it alone (iDLG); labels of more are guessed along.
    The best of `restarts` random starts counts, by its objective. ReLU has no second derivative for L-BFGS to use:
    there, cosine is the better one.

    `knows=bottom`: a bottom that is not shared is known but for its passports, which are guessed once per start (white
    box). `knows=form`: its weights are drawn anew (black box). A bottom that is shared is known either way.

    Sees: the last `messages` updates that the client sent, and the weights that it was sent before each; a bottom of
    its own was nearest then to the one that is known.
    Needs: gradients, not weights after many steps; the number of rows behind an update; the shape of a row.
    Specification: baselines, section 5; fedadob, section 4.
    Paper: Zhu et al., Deep Leakage from Gradients (NeurIPS 2019); Geiping et al., Inverting Gradients (NeurIPS 2020).
    """

    target: ClassVar[Target] = Target.FEATURES
    by: ClassVar[Role] = Role.LABEL_PARTY
    settings: ClassVar[tuple[str, ...]] = ("messages=1,steps=200,method=cosine", "messages=4,method=cosine")

    def __init__(
        self,
        *,
        method: Literal["dlg", "cosine"] = "dlg",
        knows: Literal["bottom", "form"] = "bottom",
        messages: int = 4,
        steps: int = 300,
        restarts: int = 2,
        lr: float = 0.1,
        tv: float = 0.0,
        relative: bool = True,
    ) -> None:
        one_of("method", method, ("dlg", "cosine"))
        one_of("knows", knows, ("bottom", "form"))
        for name, count in (("messages", messages), ("steps", steps), ("restarts", restarts)):
            at_least(name, count, 1)
        positive("lr", lr)
        non_negative("tv", tv)
        self.method = method
        self.knows = knows
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
        """Invert one update after the other."""
        sent = {m.batch.step: m for m in _of(view, Kind.UPDATE) if m.sender == view.victim}
        given = {m.batch.step: m for m in _of(view, Kind.WEIGHTS) if m.receiver == view.victim}
        steps = sorted(set(sent) & set(given))[-self.messages :]
        if not steps:
            raise Inapplicable("gradients-only: clients sent weights")
        if view.victim not in view.hints.shapes:
            raise ConfigError(f"Expected the shape of a row as a hint; {self.name} needs it.")
        shape, rows, values, groups = view.hints.shapes[view.victim], [], [], []
        for step in steps:
            count = len(sent[step].batch.rows)
            model, shared = self._model(view, given[step].payload)
            seed = int(torch.randint(2**62, (), generator=rng))
            with Stream(seed, "gradient-inversion", device=next(model.parameters()).device).scope():
                values.append(self._invert(model, shared, sent[step].payload, (count, *shape), view.manifest.classes))
            rows.append(sent[step].batch.rows)
            groups.append(torch.full((count,), step))
        return Guess(
            torch.cat(rows), torch.cat(values).float().cpu(), Form.VALUES, groups=torch.cat(groups), unordered=True
        )

    def _model(self, view: View, weights: Tensor) -> tuple["Whole", dict[str, slice]]:
        """The client's model as far as the server knows it, and where the shared parameters lie in the vector."""
        own, victim = view.own[view.attacker], view.victim
        bottom = own.bottom or (view.hints.bottoms if self.knows == "bottom" else view.hints.forms)[victim]
        if own.top is None:
            raise ConfigError("Expected the server to attack; it alone holds what is shared.")
        model = copy.deepcopy(Whole(bottom, own.top)).train().requires_grad_(False)
        shared = [getattr(model, part) for part in view.manifest.shares]
        unpack(weights.to(next(model.parameters()).device), shared)
        where = {id(one): here for here, one in places(shared)}
        for layer in model.modules():
            if isinstance(layer, nn.BatchNorm1d | nn.BatchNorm2d):  # by the statistics of the batch, as in training
                layer.track_running_stats, layer.running_mean, layer.running_var = False, None, None
        return model, {name: where[id(p)] for name, p in model.named_parameters() if id(p) in where}

    def _invert(
        self, model: "Whole", shared: dict[str, slice], update: Tensor, size: tuple[int, ...], classes: int
    ) -> Tensor:
        """One batch: the best end of several starts."""
        if self.method == "dlg":
            model.double()  # second-order steps end early where digits run out
        device, kind = (one := next(model.parameters())).device, one.dtype
        wanted = torch.cat([update[here] for here in shared.values()]).to(device, kind)
        known = _label(model, shared, update) if size[0] == 1 else None
        ends = []
        for _ in range(self.restarts):
            draw = torch.rand if is_image(size[1:]) else torch.randn
            start = draw(size, device=device, dtype=kind)
            guess = torch.randn(size[0], classes, device=device, dtype=kind)
            if known is not None:
                guess = torch.full_like(guess, -20.0)
                guess[:, known] = 20.0
            for layer in passport_layers(model):  # guessed once
                layer.given = None
                layer.given = layer.factors(layer_input(model.bottom, layer, start))
            search = self._squares if self.method == "dlg" else self._cosines
            ends.append(search(_gradient(model, list(shared)), start, guess, wanted))
        return min(ends, key=lambda end: end[1])[0]

    def _squares(self, gradient: "Gradient", start: Tensor, guess: Tensor, wanted: Tensor) -> tuple[Tensor, float]:
        x, y = start.clone().requires_grad_(), guess.clone().requires_grad_()
        optimizer = torch.optim.LBFGS(
            [x] if float(guess.abs().min()) > 10 else [x, y],
            max_iter=PATIENCE,
            history_size=50,
            tolerance_grad=0,
            tolerance_change=0,
            line_search_fn="strong_wolfe",
        )
        size = wanted.abs().clamp(min=SMALL * float(wanted.abs().max()) + 1e-30)
        scale = size.square() * len(wanted) if self.relative else size.square().sum()
        best, least = start, float("inf")

        def closure() -> Tensor:
            optimizer.zero_grad()
            value = ((gradient(x, y) - wanted).square() / scale).sum()
            value.backward()
            return value

        for _ in range(max(1, self.steps // PATIENCE)):
            optimizer.step(closure)
            value = float(closure().detach())
            if not value < least:  # also where it is no number
                break
            best, least = x.detach().clone(), value
        return best.clamp(0, 1) if is_image(tuple(start.shape[1:])) else best, least

    def _cosines(self, gradient: "Gradient", start: Tensor, guess: Tensor, wanted: Tensor) -> tuple[Tensor, float]:
        x, y = start.clone().requires_grad_(), guess.clone().requires_grad_()
        learned = [x] if float(guess.abs().min()) > 10 else [x, y]
        optimizer = torch.optim.Adam(learned, lr=self.lr)
        ends = [int(share * self.steps) for share in (0.375, 0.625, 0.875)]
        schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, ends, 0.1)
        picture = is_image(tuple(start.shape[1:]))
        value = torch.tensor(float("inf"))
        for _ in range(self.steps):
            value = 1 - cosine_similarity(gradient(x, y), wanted, dim=0)
            if self.tv and picture:
                value = value + self.tv * total_variation(x).mean()
            for one, slope in zip(learned, torch.autograd.grad(value, learned), strict=True):
                one.grad = slope.sign()
            optimizer.step()
            schedule.step()
            if picture:
                x.data.clamp_(0, 1)
        return x.detach(), float(value.detach())


Gradient = Callable[[Tensor, Tensor], Tensor]


class Whole(nn.Module):
    """A client's bottom and top."""

    def __init__(self, bottom: nn.Module, top: nn.Module) -> None:
        super().__init__()
        self.bottom = bottom
        self.top = top

    def forward(self, rows: Tensor) -> Tensor:
        """Return logits."""
        output: Tensor = self.top(self.bottom(rows))
        return output


def _gradient(model: Whole, names: list[str]) -> Gradient:
    """The gradient of shared parameters as a function of rows and label logits, with a graph of its own."""
    parameters = dict(model.named_parameters())
    chosen = [parameters[name] for name in names]

    def gradient(rows: Tensor, labels: Tensor) -> Tensor:
        for one in chosen:
            one.requires_grad_()
        loss = -(labels.softmax(dim=1) * log_softmax(model(rows), dim=1)).sum(dim=1).mean()
        found = torch.autograd.grad(loss, chosen, create_graph=True)
        return torch.cat([one.flatten() for one in found])

    return gradient


def _label(model: Whole, shared: dict[str, slice], update: Tensor) -> int | None:
    """The label of a single row: where the gradient of the last bias is least (Zhao et al., iDLG)."""
    last = [n for n, layer in model.named_modules() if isinstance(layer, nn.Linear) and layer.bias is not None][-1:]
    here = shared.get(f"{last[0]}.bias") if last else None
    return None if here is None else int(update[here].argmin())


def _of(view: View, kind: Kind) -> list[Message]:
    return [m for channel in view.channels if channel.kind is kind for m in channel.messages()]
