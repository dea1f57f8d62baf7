"""The start of an encrypted layer: W = P F, where the label party draws P and the feature party F.

P (inputs x mixed) holds signs, F (mixed x width) small uniform numbers, and `mixed` is several times larger than
both sides of W. Then W's entries are close to normal, as wide as those of nn.Linear, and close to independent of
either factor: given P, the columns of W have covariance P P^T, which is nearly a multiple of the identity, and
given F its rows have F^T F. So neither party knows W, not even roughly; if both drew a part and W were the sum,
each would know half of it, and as little as half is enough to tell which of W's rotations is the right one.

The label party multiplies [F] by P blind and adds a uniform U: the feature party decrypts N = P F + U, the label
party keeps W~ = -U. Each share is uniform in the ring.
"""

import math

import numpy as np

from cutlayer.crypto import Residues
from cutlayer.cuts.parts.stretch import stretch

FINE = 40  # bits of a draw


def mixed(inputs: int, width: int) -> int:
    """How many random terms make an entry of W."""
    return 64 + 4 * max(inputs, width)


def signs(inputs: int, width: int, seed: int) -> Residues:
    """P: the label party's factor."""
    return 1 - 2 * (stretch(seed, "layer signs", 0, (inputs, mixed(inputs, width)), 8) & 1)


def small_numbers(inputs: int, width: int, places: int, seed: int) -> Residues:
    """F: the feature party's factor, in fixed point; W then has nn.Linear's variance, 1 / (3 inputs)."""
    terms = mixed(inputs, width)
    draws = stretch(seed, "layer start", 0, (terms, width), FINE)
    return np.rint(np.ldexp(draws / math.sqrt(inputs * terms), places - FINE + 1)).astype(np.int64)
