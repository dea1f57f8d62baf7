"""Model inversion: search for inputs that the victim's bottom turns into the embeddings it sent."""

from typing import ClassVar, Literal

import torch
from torch import Generator, Tensor, nn

from cutlayer._validate import at_least, non_negative, one_of, positive
from cutlayer.attack import Asks, Attack, Form, Guess, Target
from cutlayer.defence import Role
from cutlayer.errors import ConfigError
from cutlayer.imaging import descend, is_image, predicted, total_variation, white_box
from cutlayer.rng import Stream
from cutlayer.view import View

SMALL = 0.1  # spread of random starts: near the paper's zero, and what cannot be seen stays near it


class ModelInversion(Attack):
    """Regularised maximum likelihood with the victim's model in hand (rMLE).

    Each row minimises mean((f(x) - H)^2) + tv * TV(x) + l2 * mean(x^2), all rows at once. TV is
    squared, each direction divided by its number of differences, and left out where inputs are
    not images. Dropout and batch norm are in evaluation mode, so rows do not touch each other.
    With `relative` the first term is divided by the mean of H^2, or a bottom would be safe merely
    for sending small numbers; without it the objective is the paper's.

    The paper starts at zero; ReLU units that are dead there never wake, so the default is to
    start near zero at random, `restarts` times, and to keep for each row the end with the lowest
    objective. Images stay inside [low, high] at every step; rows of tables are not bounded. The
    paper's CIFAR setting is start=zeros, relative=false, lr=0.01, steps=5000, tv=10, l2=0; the
    defaults were set on halves of digits of 8 and 28 pixels; finer images bear a larger tv.

    Sees: the embeddings of the first `images` test rows, sent in the prediction phase.
    Needs: the victim's trained bottom (white box) and the shape of one of its rows; dense inputs.
    Specification: baselines, section 3.
    Paper: He et al., Model Inversion Attacks Against Collaborative Inference (ACSAC 2019).
    """

    target: ClassVar[Target] = Target.FEATURES
    by: ClassVar[Role] = Role.LABEL_PARTY

    def __init__(
        self,
        *,
        images: int = 100,
        steps: int = 500,
        lr: float = 0.05,
        tv: float = 0.1,
        l2: float = 0.1,
        start: Literal["random", "zeros"] = "random",
        restarts: int = 2,
        relative: bool = True,
        low: float = 0.0,
        high: float = 1.0,
    ) -> None:
        for name, count in (("images", images), ("steps", steps), ("restarts", restarts)):
            at_least(name, count, 1)
        positive("lr", lr)
        non_negative("tv", tv)
        non_negative("l2", l2)
        one_of("start", start, ("random", "zeros"))
        if not low < high:
            raise ConfigError(f"Expected low={low} to lie below high={high}.")
        self.images = images
        self.steps = steps
        self.lr = lr
        self.tv = tv
        self.l2 = l2
        self.start = start
        self.restarts = restarts
        self.relative = relative
        self.low = low
        self.high = high

    @property
    def asks(self) -> Asks:
        """White box."""
        return Asks(bottom=True)

    def run(self, view: View, rng: Generator) -> Guess:
        """Invert the victim's embeddings."""
        bottom, shape = white_box(view)
        rows, embeddings = predicted(view, view.victim, view.manifest.test[: self.images])
        device = next((p.device for p in bottom.parameters()), torch.device("cpu"))
        tries = self.restarts if self.start == "random" else 1
        guess = self._start((tries, len(rows), *shape), rng).to(device)
        stream = Stream(int(torch.randint(2**62, (), generator=rng)), "model-inversion", device=device)
        with stream.scope():  # a bottom may draw numbers of its own
            found, objective = self._search(bottom, guess, embeddings.to(device))
        best = objective.argmin(dim=0)
        values = found[best, torch.arange(len(rows), device=device)].cpu()
        return Guess(rows, values, Form.VALUES)

    def _start(self, size: tuple[int, ...], rng: Generator) -> Tensor:
        if self.start == "zeros":
            return torch.zeros(size)
        if is_image(size[2:]):
            return self.low + SMALL * (self.high - self.low) * torch.rand(size, generator=rng)
        return SMALL * torch.randn(size, generator=rng)

    def _search(self, bottom: nn.Module, guess: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """Follow the gradient from every start; return the ends and their objectives."""
        tries, count = guess.shape[:2]
        target = target.repeat(tries, *[1] * (target.ndim - 1))
        box = (self.low, self.high) if is_image(guess.shape[2:]) else None

        def objective(x: Tensor) -> Tensor:
            return self._objective(bottom, x, target)

        ends, values = descend(objective, guess.flatten(0, 1), steps=self.steps, lr=self.lr, eps=1e-3, box=box)
        return ends.view(guess.shape), values.view(tries, count)

    def _objective(self, bottom: nn.Module, x: Tensor, target: Tensor) -> Tensor:
        """The paper's objective, one number per row."""
        value: Tensor = (bottom(x) - target).pow(2).flatten(1).mean(dim=1)
        if self.relative:
            size = target.pow(2).mean()
            value = value / size.where(size > 0, 1.0)
        if self.tv and is_image(x.shape[1:]):
            value = value + self.tv * total_variation(x)
        if self.l2:
            value = value + self.l2 * x.pow(2).flatten(1).mean(dim=1)
        return value
