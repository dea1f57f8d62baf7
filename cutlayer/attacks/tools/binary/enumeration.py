"""Enumeration: every 0/1 vector in a span of small rank (Algorithm 1), by trying all bits of the pivot rows.

A vector of the span is known from its values on the pivot rows, so there are 2^d candidates x', and
x = M x' with M = A A_R^-1. They are not tried one by one. Split the bits of x' into two halves: on
any row, x is a sum of one entry of a table of 2^(d/2) and one of another, and for a first row sorting
one table and looking up 0 and 1 less the other leaves a few per cent of all pairs. Further rows, then
all rows, thin these out. Which rows come first follows from how many random candidates they reject.

Specification: binary-reconstruction, section 2.
Paper: Ye et al., Feature Reconstruction Attacks and Countermeasures of DNN training in Vertical Federated
Learning (arXiv:2210.06771), Algorithm 1 and Theorem 3.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutlayer.attacks.tools.binary.span import CHUNK, Floats, Real, Span, pivot_rows
from cutlayer.errors import ConfigError, DataError
from cutlayer.progress import Progress, silent
from cutlayer.rng import numpy_generator

Bits = NDArray[np.bool_]
BITS = 32  # more candidates than 2^32 are refused
PAIRS = 1 << 20  # candidates held at a time
FEW, SAMPLE = 64, 2_048  # rows that thin out candidates; rows and random candidates that they are chosen by
MOST = 4_096  # solutions: beyond this they are sums of each other
TOLERANCE = 1e-2  # how far an entry may be from 0 or 1


def binary_vectors(span: Span, *, tolerance: float = TOLERANCE, progress: Progress = silent) -> Bits:
    """All nonzero 0/1 vectors of a span, one per column: fewest ones first, then by their bits.

    `tolerance`: how far an entry may be from 0 or 1; 1e-2 suits float32 messages, 1e-6 float64. The
    order, and thus the result, does not depend on the order of the enumeration.

    A centred span is searched together with the all-ones vector, which it lacks. That is the same as
    taking one row off all others (the paper's way with a bias), less the rounding error of that row.
    Complements then both lie in the span: the vector with fewer ones is returned (of equals, the one
    that starts with 0), and never the constant. In a span that is not centred the all-ones vector is
    a solution like any other.
    """
    refuse_too_many(span.rank)
    matrix = _candidates(span)
    numbers = np.empty(0, dtype=np.int64)
    for candidates in _screened(matrix, _check_rows(matrix, tolerance), tolerance, progress):
        for part in np.array_split(candidates, 1 + len(candidates) // MOST):
            numbers = np.concatenate([numbers, _confirmed(matrix, part, tolerance)])
            if len(numbers) > MOST:
                raise DataError(
                    f"Expected at most {MOST} binary vectors, the span has more: columns of a one-hot group add up "
                    "to further ones; use binary-search, which reports the group."
                )
    solutions = _bits(matrix, numbers)
    if span.centred:
        excess = 2 * solutions.sum(axis=0) - len(solutions)
        solutions ^= (excess > 0) | ((excess == 0) & solutions[0])
    return ordered(solutions)


def refuse_too_many(bits: int, most: int = BITS) -> None:
    """Refuse what would take hours."""
    if bits > most:
        raise ConfigError(
            f"Expected at most 2^{most} candidates, got 2^{bits}; use binary-search, which is polynomial in the rank."
        )


def ordered(vectors: Bits) -> Bits:
    """Distinct columns, fewest ones first, then by their bits: an order that no search decides."""
    rows = np.unique(np.packbits(vectors.T, axis=1), axis=0)
    unpacked = np.unpackbits(rows, axis=1, count=len(vectors)).astype(np.bool_)
    return np.ascontiguousarray(unpacked[np.argsort(unpacked.sum(axis=1), kind="stable")].T)


def subset_sums(columns: NDArray[Real]) -> NDArray[Real]:
    """The sums of all subsets of columns: the i-th adds those whose bits are set in i."""
    sums = np.zeros((len(columns), 1), dtype=columns.dtype)
    for column in columns.T:
        sums = np.concatenate([sums, sums + column[:, None]], axis=1)
    return sums


def bits_of(numbers: NDArray[np.int64], count: int) -> Floats:
    """The lowest bits of whole numbers, lowest first."""
    return ((numbers[:, None] >> np.arange(count)) & 1).astype(np.float64)


def extension(basis: Floats) -> Floats:
    """M = A A_R^-1, which takes the values of a vector of the span on the pivot rows R to all rows."""
    return np.asarray(np.linalg.solve(basis[pivot_rows(basis)].T, basis.T).T, dtype=np.float64)


def stretch(span: Span) -> float:
    """How much larger the error of a vector can be on any row than it is on the pivot rows, where bits are tried."""
    return 1 + float(np.abs(_extension(span)).sum(axis=1).max())


def _candidates(span: Span) -> Floats:
    """M, less the first pivot row where complements come in pairs: of each pair, one vector is 0 there."""
    return _extension(span)[:, int(span.centred) :]


def _extension(span: Span) -> Floats:
    """M of the span, with the all-ones vector where it is centred."""
    if not span.centred:
        return extension(span.basis)
    ones = np.full(len(span.basis), len(span.basis) ** -0.5)
    return extension(np.column_stack([ones, span.basis]))


def _check_rows(matrix: Floats, tolerance: float) -> Floats:
    """A few rows of M, each chosen to reject most of the random candidates that passed those before it."""
    rng = numpy_generator(0, "binary enumeration")
    rows = matrix[rng.permutation(len(matrix))[:SAMPLE]]
    passed = _near_bits(rows @ rng.integers(0, 2, (matrix.shape[1], SAMPLE)), tolerance)
    chosen: list[int] = []
    while passed.shape[1] and len(chosen) < FEW:
        best = int(passed.sum(axis=1).argmin())
        if passed[best].all():
            break
        chosen.append(best)
        passed = passed[:, passed[best]]
    return rows[[*chosen, *(i for i in range(len(rows)) if i not in chosen)][:FEW]]


def _screened(matrix: Floats, rows: Floats, tolerance: float, progress: Progress) -> Iterator[NDArray[np.int64]]:
    """Numbers of candidates that are 0 or 1 on the check rows, never that of the zero vector."""
    width = matrix.shape[1]
    half = width // 2
    low, high = subset_sums(rows[:, :half]), subset_sums(rows[:, half:])
    order = low[0].argsort(kind="stable")
    low = low[:, order]
    starts, counts = [], []
    for value in (0.0, 1.0):
        starts.append(np.searchsorted(low[0], value - high[0] - tolerance))
        counts.append(np.searchsorted(low[0], value - high[0] + tolerance, side="right") - starts[-1])
    total, ends = 1 << width, np.cumsum(counts[0] + counts[1])
    begin = 0
    while begin < high.shape[1]:
        before = ends[begin - 1] if begin else 0
        end = max(begin + 1, int(np.searchsorted(ends, before + PAIRS, side="right")))
        for start, count in zip(starts, counts, strict=True):
            left, right = _expanded(start[begin:end], count[begin:end], begin)
            for low_sums, high_sums in zip(low[1:], high[1:], strict=True):
                passed = _near_bits(low_sums[left] + high_sums[right], tolerance)
                left, right = left[passed], right[passed]
            numbers = order[left] + (right << half)
            yield numbers[numbers > 0]
        begin = end
        progress(begin << half, total, "")


def _expanded(starts: NDArray[Any], counts: NDArray[Any], first: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Every (low, high) pair of ranges of the low table, one range per entry of the high table."""
    right = np.repeat(np.arange(len(counts)), counts)
    left = np.arange(len(right)) + (starts - np.cumsum(counts) + counts)[right]
    return left, right + first


def _confirmed(matrix: Floats, numbers: NDArray[np.int64], tolerance: float) -> NDArray[np.int64]:
    """Those candidates that are 0 or 1 on every row."""
    for i in range(0, len(matrix), CHUNK):
        values = matrix[i : i + CHUNK] @ bits_of(numbers, matrix.shape[1]).T
        numbers = numbers[_near_bits(values, tolerance).all(axis=0)]
    return numbers


def _bits(matrix: Floats, numbers: NDArray[np.int64]) -> Bits:
    """Candidates on every row."""
    out = np.empty((len(matrix), len(numbers)), dtype=np.bool_)
    bits = bits_of(numbers, matrix.shape[1]).T
    for i in range(0, len(matrix), CHUNK):
        out[i : i + CHUNK] = matrix[i : i + CHUNK] @ bits > 0.5
    return out


def _near_bits(values: Floats, tolerance: float) -> Bits:
    return np.abs(np.abs(values - 0.5) - 0.5) <= tolerance
