"""Model inversion: search for inputs that the victim's bottom turns into the embeddings it sent."""

from typing import ClassVar, Literal, get_args

import torch
from torch import Generator, Tensor

from cutlayer._validate import at_least, non_negative, one_of, positive
from cutlayer.attack import Asks, Attack, Form, Guess, Target
from cutlayer.attacks.tools.inversion import invert, is_image, near_zero
from cutlayer.attacks.tools.reading import predicted, white_box
from cutlayer.defence import Role
from cutlayer.errors import ConfigError
from cutlayer.rng import Stream
from cutlayer.view import View

Start = Literal["random", "normal", "zeros"]


class ModelInversion(Attack):
    """Search for inputs that the victim's known bottom turns into the embeddings it sent (rMLE).

    Each row minimises mean((f(x) - H)^2) + tv * TV(x) + l2 * mean(x^2), all rows at once. TV is
    squared, each direction divided by its number of differences, and left out where inputs are
    not images. Dropout and batch norm are in evaluation mode, so rows do not touch each other.
    With `relative` the first term is divided by the mean of H^2, or a bottom would be safe merely
    for sending small numbers; without it the objective is the paper's.

    The paper starts at zero; ReLU units that are dead there never wake, so the default is to
    start near zero at random, `restarts` times, and to keep for each row the end with the lowest
    objective. Images stay inside [`low`, `high`] at every step, or with bounded=false at the last one only; rows of
    tables are not bounded. The paper's CIFAR setting is start=zeros, relative=false, lr=0.01, steps=5000, tv=10,
    l2=0; FedAdOb's is start=normal, bounded=false, restarts=1, lr=0.1, tv=0.1, l2=0, steps=5000, and searches among
    pictures that do not exist. The defaults were set on halves of digits of 8 and 28 pixels; finer images bear a
    larger tv. Where the bottom holds passports, their secret means are guessed (FedAdOb's Remark 3).

    Sees: the embeddings of the first `images` test rows, sent in the prediction phase.
    Needs: the victim's trained bottom (white box) and the shape of one of its rows; dense inputs.
    Cost: 14 s on MNIST on a CPU for 100 images, 1,000 steps and one start (results/fedadob-horizontal).
    Specification: baselines, section 3; fedadob, section 4.
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
        start: Start = "random",
        restarts: int = 2,
        relative: bool = True,
        bounded: bool = True,
        low: float = 0.0,
        high: float = 1.0,
    ) -> None:
        for name, count in (("images", images), ("steps", steps), ("restarts", restarts)):
            at_least(name, count, 1)
        positive("lr", lr)
        non_negative("tv", tv)
        non_negative("l2", l2)
        one_of("start", start, get_args(Start))
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
        self.bounded = bounded
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
        tries = 1 if self.start == "zeros" else self.restarts
        guess = self._begin((tries, len(rows), *shape), rng).to(device)
        stream = Stream(int(torch.randint(2**62, (), generator=rng)), "model-inversion", device=device)
        with stream.scope():  # a bottom may draw numbers of its own
            values = invert(
                bottom,
                guess,
                embeddings.to(device),
                steps=self.steps,
                lr=self.lr,
                tv=self.tv,
                l2=self.l2,
                relative=self.relative,
                box=(self.low, self.high) if self.bounded else None,
            ).cpu()
        if is_image(shape):
            values = values.clamp(self.low, self.high)
        return Guess(rows, values, Form.VALUES)

    def _begin(self, size: tuple[int, ...], rng: Generator) -> Tensor:
        if self.start == "zeros":
            return torch.zeros(size)
        if self.start == "normal":
            return torch.randn(size, generator=rng)
        return near_zero(size, rng, self.low, self.high)
