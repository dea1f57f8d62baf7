"""The Laplace mechanism on a grid: round to whole steps, and add a whole number of steps of noise.

Why discrete: as in gaussian_mechanism; the low bits of a floating-point sum tell what noise was added to.
"""

import torch
from torch import Generator, Tensor


def laplace_on_grid(payload: Tensor, scale: float, grid: float, rng: Generator) -> Tensor:
    """Round to the grid and add discrete Laplace noise, in double precision.

    Noise of k steps has a chance proportional to exp(-|k| grid / scale). Two payloads that lie D apart are at most
    D + grid apart after rounding, so one entry spends (D + grid) / scale.
    """
    return ((payload.double() / grid).round() + _discrete_laplace(payload, scale / grid, rng)) * grid


def _discrete_laplace(like: Tensor, steps: float, rng: Generator) -> Tensor:
    """The difference of two geometric draws, which are exponential ones rounded down."""
    drawn = torch.empty((2, *like.shape), dtype=torch.float64, device=like.device).exponential_(generator=rng)
    whole = (drawn * steps).floor()
    return whole[0] - whole[1]
