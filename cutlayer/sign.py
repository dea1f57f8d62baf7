"""Sign with a straight-through gradient, and Laplace noise on codes: the building blocks of hashing."""

from typing import Any

import torch
from torch import Generator, Tensor


class _Sign(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor) -> Tensor:
        return torch.where(values >= 0, 1.0, -1.0).to(values.dtype)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient


def sign(values: Tensor) -> Tensor:
    """+1 where values are 0 or more, else -1; the gradient passes as it is, without clipping."""
    return _Sign.apply(values)  # type: ignore[no-any-return, no-untyped-call]


def laplace_like(like: Tensor, scale: float, rng: Generator) -> Tensor:
    """Laplace noise: the difference of two exponentials."""
    drawn = torch.empty((2, *like.shape), dtype=like.dtype, device=like.device).exponential_(generator=rng)
    return scale * (drawn[0] - drawn[1])
