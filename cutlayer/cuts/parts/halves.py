"""Halves: two parties' shares of one layer's weights, which add up to them modulo t, and the step of SGD on a share.

The grids fit each other, so that no product is ever rounded: columns have COLUMN bits behind the point, a batch's
gradient times the learning rate has STEP, and so weights and their steps, X^T (lr delta), have WEIGHT, and sums
X W have SUM. Plain SGD on shares is then exact modulo t: nothing is cut off, and nothing can go wrong.
"""

import hashlib
import math

import numpy as np
import torch
from torch import Tensor

from cutlayer.crypto import Residues, Ring
from cutlayer.cuts.parts.memory import Memory
from cutlayer.cuts.parts.stretch import stretch
from cutlayer.errors import DataError
from cutlayer.message import Batch

BITS = 56
COLUMN, STEP = 10, 22
WEIGHT, SUM = COLUMN + STEP, 2 * COLUMN + STEP
RING = Ring(BITS, fraction=SUM)
SLACK = 3  # bits of the ring that no sum may use: a share that wrapped round lands there 7 times in 8, row by row
MOST_SUM = 2.0 ** (BITS - 1 - SLACK - SUM)  # 1,024
MOST_COLUMN = 2.0**10


def encode_columns(columns: Tensor) -> Residues:
    """Columns in fixed point, as they enter both passes; refuses what has no room."""
    if not bool((columns.abs() <= MOST_COLUMN).all()):
        raise DataError(f"Expected columns within {MOST_COLUMN:.0f} of zero for the blind layer: scale them.")
    return RING.encode(columns, COLUMN)


def encode_step(gradient: Tensor, lr: float, seed: int, step: int) -> Residues:
    """The gradient times lr, rounded up or down at random, so that what is too small for the grid counts on average.

    Rounding to the nearest would drop it for good: a row that is nearly right would never push again.
    """
    scaled = np.ldexp(lr * gradient.detach().cpu().double().numpy(), STEP)
    if not bool((np.abs(scaled) < RING.modulus >> 2).all()):
        raise DataError("Expected gradients that fit the blind layer, got some that do not: use a smaller lr.")
    dice = np.ldexp(stretch(seed, "blind rounding", step, scaled.shape, 32).astype(np.float64), -32) + 0.5
    return RING.wrap(np.floor(scaled + dice).astype(np.int64))


def decode_sum(residues: Residues) -> Tensor:
    """Opened sums as numbers; refuses those out of their range, which are wrong."""
    numbers = RING.centred(residues)
    if numbers.size and int(np.abs(numbers).max()) > MOST_SUM * 2.0**SUM:
        raise DataError(
            f"Expected sums within {MOST_SUM:.0f} of zero in the blind layer: use a smaller lr or scale the columns. "
            "If they were small until now, a share of the momentum wrapped round: resume from the last checkpoint."
        )
    return torch.from_numpy(np.ldexp(numbers.astype(np.float64), -SUM))


def descend(memory: Memory, name: str, share: Residues, momentum: float) -> None:
    """One step of SGD on a share of weights, by a share of lr times their gradient."""
    weights = memory.find(name)
    assert weights is not None
    if momentum:
        velocity = memory.find(f"velocity {name}")
        if velocity is not None:
            share = RING.add(share, scaled(velocity, momentum))
        memory.put(f"velocity {name}", share)
    memory.put(name, RING.subtract(weights, share))


def scaled(share: Residues, factor: float) -> Residues:
    """A factor below one times a share, read as a signed number and rounded.

    Two shares that add up to v modulo t add up to v itself, unless the first is within |v| of the ring's edge, which
    has probability |v| / t. Then the products are off by factor * t, which shows in the next sums (`decode_sum`).
    """
    return RING.wrap(np.rint(factor * RING.centred(share).astype(np.float64)).astype(np.int64))


def first_weights(seed: int, purpose: str, shape: tuple[int, int]) -> Residues:
    """Weights as nn.Linear starts with: uniform up to 1 / sqrt(inputs)."""
    drawn = stretch(seed, f"blind {purpose}", 0, shape, 32).astype(np.float64)
    return RING.wrap(np.rint(np.ldexp(drawn, 1 - 32 + WEIGHT) / math.sqrt(shape[0])).astype(np.int64))


def blur(seed: int, batch: Batch, width: int) -> Residues:
    """What a party adds to its part of a sum: uniform, half as large as the last bit of a column either way.

    A sum would otherwise be an exact product of whole numbers, and those of a few factors can be taken apart again (a
    greatest common divisor, lattices). Other rows, or another phase, never get the blur of a step again.
    """
    rows = batch.rows.cpu().numpy()
    purpose = f"blind blur {batch.phase.value} {hashlib.sha256(rows.tobytes()).hexdigest()}"
    return stretch(seed, purpose, batch.step, (len(rows), width), WEIGHT)
