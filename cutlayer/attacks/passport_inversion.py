"""Passport inversion: model inversion of a bottom whose passports are not known."""

from typing import ClassVar, Literal, get_args

import torch
from torch import Generator, Tensor, nn

from cutlayer._validate import at_least, non_negative, one_of, positive
from cutlayer.attack import Asks, Attack, Form, Guess, Target
from cutlayer.attacks.tools.inversion import invert, is_image, misfit, near_zero
from cutlayer.attacks.tools.reading import predicted, white_box
from cutlayer.blocks.passport import PassportLayer, layer_input, passport_layers
from cutlayer.defence import Role
from cutlayer.defences.passport import Passport
from cutlayer.draws import Draws
from cutlayer.errors import Inapplicable
from cutlayer.message import Kind, Phase
from cutlayer.rng import Stream
from cutlayer.view import Manifest, View

Assume = Literal["fit", "guess", "none"]

BOX = (0.0, 1.0)  # of a picture's numbers
REFITS = 20  # times that gamma and beta are solved for in a search


class PassportInversion(Attack):
    """Invert a bottom whose passports are unknown: ignore them, guess them often, or fit them.

    `model-inversion` guesses passports once; here are three other attackers. `assume=none` ignores them: gamma is 1
    and beta 0 (FedAdOb's Remark 1). `assume=guess` guesses their means anew in each of `restarts`: a bad guess shows,
    since no rows explain the embeddings as well as under a good one. `assume=fit` is adaptive. All rows of a batch
    share gamma and beta, two numbers per channel, so it searches for them together with the rows: each of `restarts`
    guesses passports, takes gamma and beta from there and lets them follow the gradient (`rate`). Where nothing but
    an activation comes after the layer, it also solves for them by least squares, channel by channel, in the second
    half of the search, which turns signs that were wrong. A tanh that bounds them is known, and kept to. The restart
    with the lowest mean objective counts. `steps`, `lr`, `tv` and `l2` are those of `model-inversion`.

    Sees: the embeddings of the first `images` test rows, sent in the prediction phase, and which came together.
    Needs: the victim's trained bottom without its passports, and the shape of one of its rows.
    Cost: 80 s on MNIST on a CPU for 100 images, 1,000 steps and 2 restarts (results/fedadob-horizontal).
    Specification: fedadob, sections 4, 7 and 8.
    Paper: Gu et al., FedAdOb (arXiv:2406.01085), Theorem 1 and its remarks; `guess` and `fit` are ours.
    """

    target: ClassVar[Target] = Target.FEATURES
    by: ClassVar[Role] = Role.LABEL_PARTY
    settings: ClassVar[tuple[str, ...]] = ("images=50,steps=300", "images=50,assume=none")

    def __init__(
        self,
        *,
        assume: Assume = "fit",
        images: int = 100,
        steps: int = 500,
        lr: float = 0.05,
        rate: float = 0.02,
        tv: float = 0.1,
        l2: float = 0.1,
        restarts: int = 4,
    ) -> None:
        one_of("assume", assume, get_args(Assume))
        positive("rate", rate)
        for name, count in (("images", images), ("steps", steps), ("restarts", restarts)):
            at_least(name, count, 1)
        positive("lr", lr)
        non_negative("tv", tv)
        non_negative("l2", l2)
        self.assume = assume
        self.images = images
        self.steps = steps
        self.lr = lr
        self.rate = rate
        self.tv = tv
        self.l2 = l2
        self.restarts = restarts

    @property
    def asks(self) -> Asks:
        """White box, but for the passports."""
        return Asks(bottom=True)

    def applies(self, manifest: Manifest) -> str | None:
        """Without passports, this is model inversion."""
        return None if manifest.uses(Passport) else "passports-only"

    def run(self, view: View, rng: Generator) -> Guess:
        """Invert the victim's embeddings."""
        bottom, shape = white_box(view)
        if not (layers := passport_layers(bottom)):
            raise Inapplicable("passports-only")
        layer = layers[-1]
        rows, embeddings = predicted(view, view.victim, view.manifest.test[: self.images])
        embeddings = embeddings.to(layer.means.device)
        start = near_zero((self.restarts, len(rows), *shape), rng).to(embeddings)
        stream = Stream(int(torch.randint(2**62, (), generator=rng)), "passport-inversion", device=layer.means.device)
        with stream.scope():
            if self.assume == "none":
                layer.given = torch.ones(1).to(embeddings), torch.zeros(1).to(embeddings)
                values = invert(bottom, start, embeddings, steps=self.steps, lr=self.lr, tv=self.tv, l2=self.l2)
            elif self.assume == "guess":
                values = min((self._guess(bottom, first, embeddings) for first in start), key=lambda end: end[1])[0]
            else:
                ends = [self._fit(bottom, layer, first, embeddings, _together(view, rows)) for first in start]
                values = min(ends, key=lambda end: end[1])[0]
        return Guess(rows, values.cpu(), Form.VALUES)

    def _guess(self, bottom: nn.Module, start: Tensor, target: Tensor) -> tuple[Tensor, float]:
        """Guess passports, and search for rows under them; the rows and their mean objective."""
        for layer in passport_layers(bottom):
            layer.forget_secret(Draws(int(torch.randint(2**62, ())), "guess"))
        x = invert(bottom, start[None], target, steps=self.steps, lr=self.lr, tv=self.tv, l2=self.l2)
        with torch.no_grad():
            return x, float(misfit(bottom, x, target, tv=self.tv, l2=self.l2).mean())

    def _fit(
        self, bottom: nn.Module, layer: PassportLayer, start: Tensor, target: Tensor, groups: Tensor
    ) -> tuple[Tensor, float]:
        """Search for rows, gamma and beta from one start; the rows and their mean objective."""
        normed: list[Tensor] = []
        handle = layer.norm.register_forward_hook(lambda module, inputs, output: normed.append(output))
        layer.given = None
        layer.forget_secret(Draws(int(torch.randint(2**62, ())), "guess"))
        with torch.no_grad():
            inside = layer_input(bottom, layer, start[:1])
            drawn = [layer.factors(inside) for _ in range(int(groups.max()) + 1)]
        gamma, beta = (torch.stack(part) for part in zip(*drawn, strict=True))
        unit = gamma.abs().clamp(min=1e-6)  # of both, so that one rate suits all channels
        x, slope, shift = (factor.clone().requires_grad_() for factor in (start, gamma / unit, beta / unit))
        optimizer = torch.optim.Adam(
            [{"params": [x], "lr": self.lr}, {"params": [slope, shift], "lr": self.rate}], eps=1e-3, amsgrad=True
        )
        for step in range(self.steps):
            layer.given = (slope * unit)[groups], (shift * unit)[groups]
            normed.clear()
            values = misfit(bottom, x, target, tv=self.tv, l2=self.l2)
            x.grad, slope.grad, shift.grad = torch.autograd.grad(values.sum(), [x, slope, shift])
            optimizer.step()
            if is_image(start.shape[1:]):
                x.data.clamp_(*BOX)
            if normed[0].shape == target.shape and step >= self.steps // 2 and step % max(1, self.steps // REFITS) == 0:
                for old, new in zip((slope, shift), _solve(normed[0].detach(), target, groups), strict=True):
                    old.data = torch.where(new[1], new[0] / unit, old.data)
            if layer.bounded and not layer.convolves:
                for factor in (slope, shift):
                    factor.data = (factor.data * unit).clamp(-1, 1) / unit
        with torch.no_grad():
            layer.given = (slope * unit)[groups], (shift * unit)[groups]
            value = float(misfit(bottom, x, target, tv=self.tv, l2=self.l2).mean())
        handle.remove()
        return x.detach(), value


def _together(view: View, rows: Tensor) -> Tensor:
    """Which of the rows came in one message: a group number each."""
    sent, _, steps = view.channel(Kind.EMBEDDING, Phase.PREDICT, peer=view.victim).read()
    last = {int(row): int(step) for row, step in zip(sent, steps, strict=True)}
    groups: Tensor = torch.tensor([last[int(row)] for row in rows]).unique(return_inverse=True)[1]
    return groups


def _flat(values: Tensor) -> Tensor:
    """Channels first, all else in a row."""
    return values.transpose(0, 1).flatten(1)


def _solve(inner: Tensor, target: Tensor, groups: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Gamma and beta by least squares over what an activation let through, and where there was enough of it."""
    solutions = []
    for group in range(int(groups.max()) + 1):
        inside, outside = _flat(inner[groups == group]), _flat(target[groups == group])
        counts = (outside > 0).to(inside) if float(target.min()) >= 0 else torch.ones_like(inside)
        total = counts.sum(dim=1).clamp(min=1)
        mean_inside, mean_outside = (inside * counts).sum(dim=1) / total, (outside * counts).sum(dim=1) / total
        deviation = (inside - mean_inside[:, None]) * counts
        spread = deviation.square().sum(dim=1)
        slope = (deviation * (outside - mean_outside[:, None])).sum(dim=1) / spread.clamp(min=1e-9)
        solutions.append((slope, mean_outside - slope * mean_inside, (total > 10) & (spread > 1e-6 * total)))
    slope, shift, enough = (torch.stack(part) for part in zip(*solutions, strict=True))
    return [(slope, enough), (shift, enough)]
