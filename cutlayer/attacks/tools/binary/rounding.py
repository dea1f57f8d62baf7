"""Rounding: how many directions of a dump stand above its rounding, and whether the rest is rounding indeed.

Exact messages Z = X W^T + b that are wider than the table has columns leave directions over, in which
nothing but rounding is seen. Their size is thus measured, and it is known from the precision of the
numbers (`precision`), which are two independent figures. Where both agree, the span is what is above,
and how far rounding turned it follows. Where they do not, there is noise, or a column too weak to be
told from it, or the messages are not linear, and nothing can be proved about columns that were not found.

Two limits are left. A column so faint that rounding drowns it wholly leaves no trace: `faint` says below which
strength that is. And noise that spares the very directions left over, because it was added before the
layer or in few directions, is as good as further columns of the table: the span then truly lacks the others.

Columns are scaled by their steps, and rows too while directions are counted, so that neither a column of
large numbers nor a row far out drowns the others.

Specification: binary-search, section 3.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike
from torch import Tensor

from cutlayer.attacks.tools.binary.noise import edge
from cutlayer.attacks.tools.binary.precision import Precision, precision_of
from cutlayer.attacks.tools.binary.span import CHUNK, Floats, Singles, Span, as_array, triangle_of

STORED = 1.3  # times the rounding of stored numbers that a left-over direction may have, beside the edge of chance
ADDED = 2.0  # the same where sums of many terms were rounded too
LEAST = 0.05  # times the same: below it a direction is empty, and says nothing about noise
FLAT = 2.2  # largest over smallest left-over direction, beside the edges of chance
ROW = 4.0  # times what a direction may have: the same of a row
SPARE = 2  # directions left over, at least: one may be a rule of the messages, such as that they add up to zero
FEWEST = 2.0  # rows per direction that is left over
DEVIATIONS = 6.0  # of rounding: more is not met in any row
OURS = 48  # significant bits that our own arithmetic in float64 keeps; finer rounding is not seen
MEDIAN = 0.6745  # of the absolute value of a normal number
FINE = 1e-4  # turn of the span by rounding, up to which an exact test overlooks nothing
FAINT = 5e-7  # of the strongest direction: strength that must still be seen; half precision and few digits hide more


@dataclass(frozen=True)
class Rounding:
    """The span above the rounding, and what rounding did to it."""

    span: Span | None  # None where what is left over is not rounding, or nothing is left over
    rank: int  # directions above the rounding
    doubt: str  # why nothing can be proved about columns that are not found; empty if something can
    turn: float  # bound on the deviation that rounding put outside the span, of a column of deviation 1
    off: float  # bound on what rounding moved a 0/1 column by, in any row
    faint: float  # of the strongest direction, as it is in most rows: what is weaker drowns in the rounding


@dataclass(frozen=True)
class _Scaled:
    """Messages in steps of their rounding."""

    array: Singles | Floats
    mean: Floats
    columns: Floats
    rows: Floats

    def parts(self) -> Iterator[Floats]:
        for i in range(0, len(self.array), CHUNK):
            yield (self.array[i : i + CHUNK] - self.mean) / self.columns

    def even(self) -> Iterator[Floats]:
        """The same with every row in steps of its own."""
        for number, part in enumerate(self.parts()):
            yield part / self.rows[number * CHUNK : (number + 1) * CHUNK, None]


def rounding_of(matrix: ArrayLike | Tensor) -> Rounding:
    """Measure the rounding of messages in the directions that they leave over."""
    array = as_array(matrix)
    if array.shape[1] > 1:
        array = np.unique(array, axis=1)  # a column that is sent twice has no rounding of its own
    array = array[:, np.ptp(array, axis=0) > 0]  # nor has a constant one
    if not array.size:
        return _doubtful(0, "all messages are equal")
    precision = precision_of(array)
    scaled = _scaled(array, precision)
    triangle = np.empty((0, array.shape[1]))
    for part in scaled.even():
        triangle = np.asarray(np.linalg.qr(np.vstack([triangle, part]), mode="r"))
    _, values, right = np.linalg.svd(triangle, full_matrices=False)
    values = values * (12 / len(array)) ** 0.5  # numbers rounded to steps of 1 are off by a deviation of 12^-1/2
    rank, limit = _rank(values, len(array), precision)
    doubt = _doubt(values, rank, len(array), precision) or _plain(array, rank)
    if not doubt and max(_sizes(scaled, right[rank:])) > ROW * limit:
        doubt = f"some rows differ in the directions left over by more than rounding to {precision} explains"
    if doubt:
        return _doubtful(rank, doubt)
    basis = np.concatenate([part @ right[:rank].T for part in scaled.parts()]) / values[:rank]
    span = Span(np.linalg.qr(basis - basis.mean(axis=0))[0], values, centred=True)
    unseen = float((right[rank:] ** 2).sum(axis=0).min() ** 0.5)  # how much of its noise each message shows, at least
    blur = max(float(values[rank]), LEAST * limit) / max(unseen, np.finfo(float).eps)
    ratio, faint = blur / float(values[rank - 1]), 2 * limit / min(float(values[0]), _common(scaled, right[0]))
    uneven = float((scaled.rows**2).mean() ** 0.5 / scaled.rows.min())
    turn, off = 2 * ratio * uneven, DEVIATIONS * ratio * float(scaled.rows.max() / scaled.rows.min())
    if turn > FINE:
        doubt = f"the weakest of {rank} directions is too near to the rounding to {precision}"
    elif faint > FAINT:
        doubt = f"rounding to {precision} may drown columns altogether"
    return Rounding(span, rank, doubt, turn, off, faint)


def _scaled(array: Singles | Floats, precision: Precision) -> _Scaled:
    """Scales of columns and rows, whose product is about the step of each number; and the mean that suits them."""
    coarse = replace(precision, bits=min(precision.bits, OURS))
    total, count = np.zeros(array.shape[1]), np.zeros(array.shape[1])
    for i in range(0, len(array), CHUNK):
        steps = coarse.steps(array[i : i + CHUNK].astype(np.float64))
        total += np.log2(np.where(steps > 0, steps, 1.0)).sum(axis=0)
        count += (steps > 0).sum(axis=0)
    columns = 2.0 ** np.rint(total / count)
    rows = np.empty(len(array))
    for i in range(0, len(array), CHUNK):
        steps = coarse.steps(array[i : i + CHUNK].astype(np.float64)) / columns
        rows[i : i + CHUNK] = (steps**2).mean(axis=1) ** 0.5
    rows = np.maximum(rows, rows[rows > 0].min())
    weights = rows**-2.0
    mean = weights @ array.astype(np.float64) / weights.sum()
    return _Scaled(array, mean, columns, rows)


def _rank(values: Floats, rows: int, precision: Precision) -> tuple[int, float]:
    """How many directions are larger than rounding can make them, and how large it can."""
    for rank, value in enumerate(values):
        chance = 1 + ((len(values) - rank) / rows) ** 0.5
        limit = chance * (ADDED * (1 + rank / 2) ** 0.5 if precision.computed else STORED)
        if value <= limit:
            return rank, limit
    return len(values), 0.0


def _doubt(values: Floats, rank: int, rows: int, precision: Precision) -> str:
    """Why the directions left over are not what rounding makes."""
    rest = values[rank:]
    if not len(rest):
        return f"all {rank} directions stand above the rounding to {precision}, so noise cannot be told from columns"
    if not rank:
        return f"no direction stands above the rounding to {precision}"
    if len(rest) < SPARE:
        return f"only {len(rest)} direction is left over, which is too few to tell noise by"
    if rows < FEWEST * len(values):
        return f"{rows} rows are too few to measure rounding in {len(rest)} directions"
    if precision.bits > OURS:
        return ""
    if rest[0] < LEAST:
        return f"the directions left over are empty, so the rounding to {precision} is not seen in them"
    chance = (len(rest) / rows) ** 0.5
    if rest[0] * (1 - chance) > FLAT * rest[-1] * (1 + chance):
        return f"the directions left over are of unequal size, which rounding to {precision} does not explain"
    return ""


def _plain(array: Singles | Floats, rank: int) -> str:
    """Why the weakest directions above the rounding may be noise, which spares those left over."""
    values = np.linalg.svd(triangle_of(array, array.mean(axis=0, dtype=np.float64)), compute_uv=False)
    noisy = edge(values[:rank], len(array)) is not None
    return "the weakest directions are alike, as noise would make them" if noisy else ""


def _sizes(scaled: _Scaled, rest: Floats) -> Iterator[float]:
    """The largest row in the directions left over, part by part, as a deviation."""
    for part in scaled.even():
        yield float(((part @ rest.T) ** 2).mean(axis=1).max() * 12) ** 0.5


def _common(scaled: _Scaled, direction: Floats) -> float:
    """The size of a direction in most rows, as a deviation, which a few rows far out do not raise."""
    sizes = np.abs(np.concatenate([part @ direction for part in scaled.even()]))
    return max(float(np.median(sizes)) * 12**0.5 / MEDIAN, np.finfo(float).tiny)


def _doubtful(rank: int, doubt: str) -> Rounding:
    return Rounding(None, rank, doubt, np.inf, np.inf, np.inf)
