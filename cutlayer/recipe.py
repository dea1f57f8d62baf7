"""Recipe: how long, how fast and with which optimiser everyone trains. All parties agree on it."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from math import cos, pi

import torch
from torch import nn

from cutlayer._validate import at_least, non_negative, positive


class Optimiser(Enum):
    """The optimisers of the papers."""

    ADAM = "adam"
    SGD = "sgd"
    ADADELTA = "adadelta"


@dataclass(frozen=True, kw_only=True)
class Constant:
    """The learning rate stays."""

    def scale(self, epoch: int, epochs: int) -> float:
        """Factor on the learning rate in an epoch (counted from 0)."""
        return 1.0


@dataclass(frozen=True, kw_only=True)
class Steps(Constant):
    """Multiply by `factor` every `every` epochs."""

    every: int = 10
    factor: float = 0.1

    def __post_init__(self) -> None:
        at_least("every", self.every, 1)
        positive("factor", self.factor)

    def scale(self, epoch: int, epochs: int) -> float:
        """Factor on the learning rate in an epoch."""
        return float(self.factor ** (epoch // self.every))


@dataclass(frozen=True, kw_only=True)
class Milestones(Constant):
    """Multiply by `factor` at each listed epoch."""

    at: tuple[int, ...] = (30, 60, 90)
    factor: float = 0.1

    def __post_init__(self) -> None:
        positive("factor", self.factor)

    def scale(self, epoch: int, epochs: int) -> float:
        """Factor on the learning rate in an epoch."""
        return float(self.factor ** sum(epoch >= milestone for milestone in self.at))


@dataclass(frozen=True, kw_only=True)
class Cosine(Constant):
    """Fall to zero along half a cosine."""

    def scale(self, epoch: int, epochs: int) -> float:
        """Factor on the learning rate in an epoch."""
        return 0.5 * (1 + cos(pi * epoch / epochs))


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Everything about training that is not a model, a defence or data."""

    epochs: int = 30
    batch_size: int = 128
    optimiser: Optimiser = Optimiser.ADAM
    lr: float = 2e-3
    momentum: float = 0.9  # SGD only
    weight_decay: float = 0.0
    schedule: Constant = field(default_factory=Constant)
    patience: int | None = None  # epochs without a better validation loss after which training stops
    clip: float | None = None  # largest norm of a party's own parameter gradient

    def __post_init__(self) -> None:
        at_least("epochs", self.epochs, 1)
        at_least("batch_size", self.batch_size, 1)
        positive("lr", self.lr)
        non_negative("momentum", self.momentum)
        non_negative("weight_decay", self.weight_decay)
        if self.patience is not None:
            at_least("patience", self.patience, 1)
        if self.clip is not None:
            positive("clip", self.clip)

    def optimizer(self, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        """Make an optimiser for one party's parameters; fused kernels where torch has them."""
        if self.optimiser is Optimiser.ADAM:
            return torch.optim.Adam(parameters, lr=self.lr, weight_decay=self.weight_decay, fused=True)
        if self.optimiser is Optimiser.SGD:
            return torch.optim.SGD(
                parameters, lr=self.lr, momentum=self.momentum, weight_decay=self.weight_decay, fused=True
            )
        return torch.optim.Adadelta(parameters, lr=self.lr, weight_decay=self.weight_decay)

    def rate(self, epoch: int) -> float:
        """The learning rate in an epoch."""
        return self.lr * self.schedule.scale(epoch, self.epochs)
