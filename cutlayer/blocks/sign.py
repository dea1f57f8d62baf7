"""Sign with a straight-through gradient, batch norm, Laplace noise on codes: the building blocks of hashing."""

from math import floor, log2
from typing import Any

import torch
from torch import Tensor, nn

from cutlayer.draws import Draws
from cutlayer.errors import ConfigError


class _Sign(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor) -> Tensor:
        code = torch.where(values >= 0, 1.0, -1.0).to(values.dtype)
        return torch.where(values.isnan(), values, code)  # or a bottom that diverged would look like a code

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient


def sign(values: Tensor) -> Tensor:
    """+1 where values are 0 or more, else -1 (NaN stays); the gradient passes as it is, without clipping."""
    return _Sign.apply(values)  # type: ignore[no-any-return, no-untyped-call]


def laplace_like(like: Tensor, scale: float, rng: Draws) -> Tensor:
    """Laplace noise."""
    return scale * rng.laplace(like.shape).to(like)


def plus_laplace(values: Tensor, scale: float, rng: Draws) -> Tensor:
    """Values plus Laplace noise, on a grid of about scale / 2^20, so that the last bits tell nothing of the values.

    The gradient passes as it is.
    """
    grid = 2.0 ** (floor(log2(scale)) - 20)
    noisy = values.detach().double() + scale * rng.laplace(values.shape).to(values.device)
    return values + ((noisy / grid).round() * grid - values.detach().double()).to(values)


class Normalised(nn.BatchNorm1d):
    """Batch norm that says what is wrong with a batch of one row, or with a bottom of another width."""

    def forward(self, input: Tensor) -> Tensor:
        """Normalise: by the batch in training, by running statistics in evaluation."""
        if self.training and len(input) < 2:
            raise ConfigError(
                "Expected at least two rows in a training batch under batch norm, got one; use a larger --batch-size."
            )
        if input.dim() != 2 or input.shape[1] != self.num_features:
            raise ConfigError(
                f"Expected a bottom that ends in {self.num_features} numbers, one per bit, got shape "
                f"{tuple(input.shape[1:])}."
            )
        output: Tensor = super().forward(input)
        return output
