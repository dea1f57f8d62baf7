"""The Laplace mechanism on a grid: round to whole steps, and add a whole number of steps of noise.

Why discrete: as in gaussian_mechanism; the low bits of a floating-point sum tell what noise was added to. What noise is
drawn from are multiples of 2^-53, so each number is exact but for a statistical distance below 2^-45.
"""

from torch import Tensor

from cutlayer.draws import Draws


def laplace_on_grid(payload: Tensor, scale: float, grid: float, rng: Draws) -> Tensor:
    """Round to the grid and add discrete Laplace noise, in double precision.

    Noise of k steps has a chance proportional to exp(-|k| grid / scale). Two payloads that lie D apart are at most
    D + grid apart after rounding, so one entry spends (D + grid) / scale.
    """
    return ((payload.double() / grid).round() + _discrete_laplace(payload, scale / grid, rng)) * grid


def _discrete_laplace(like: Tensor, steps: float, rng: Draws) -> Tensor:
    """The difference of two geometric draws, which are exponential ones rounded down."""
    whole = (rng.exponential((2, *like.shape)) * steps).floor()
    return (whole[0] - whole[1]).to(like.device)
