"""The Gaussian mechanism on a grid: round to whole steps, and add a whole number of steps of noise.

Why discrete: a sum of two floating-point numbers has low bits that tell which numbers were added, so continuous noise
gives away what it hides (Mironov, CCS 2012, for Laplace; the same holds for normal draws). Here all that leaves is a
whole number of steps, drawn from a discrete Gaussian; turning it into a float afterwards is computed from that number
alone. Noise of n steps is as concentrated as the continuous one: its Renyi divergences are no larger, in any dimension
(Canonne, Kamath, Steinke, arXiv:2004.00010, Theorem 4). How far its (epsilon, delta) may be from the continuous
curve is `blocks.accountant.grid_slack`.
"""

from math import sqrt

from torch import Tensor

from cutlayer.draws import STEPS, Draws


def blurred(payload: Tensor, std: float, rng: Draws) -> Tensor:
    """Round to a grid of std / STEPS and add discrete Gaussian noise of standard deviation `std`.

    Backward it is the identity: rounding and noise count as constants.
    """
    if std == 0:
        return payload
    grid = std / STEPS
    noise = rng.discrete_normal(payload.shape).to(payload.device)
    whole = (payload.detach().double() / grid).round() + noise
    sent = (whole * grid).to(payload.dtype)
    return sent + (payload - payload.detach()) if payload.requires_grad else sent  # exactly `sent`: that is + 0


def rounding(entries: int) -> float:
    """By how many standard deviations rounding moves two payloads of so many entries further apart, at most."""
    return sqrt(entries) / STEPS
