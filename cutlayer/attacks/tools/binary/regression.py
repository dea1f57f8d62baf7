"""Regression: 0/1 vectors close to a span, for noisy messages (Algorithm 2), by leverage-score sampling.

All bits of r sampled rows are tried. Each choice x' gives weights by least squares on these rows, the
weights give a vector on all rows, and rounding it gives a 0/1 vector x; the x nearest to the span is
kept. Since any basis of the span gives the same x, an orthonormal one is used. As in the enumeration, a
value is a sum of one entry of a table per half of the bits, so rounding is one comparison per entry.

Specification: binary-reconstruction, section 3.
Paper: Ye et al., Feature Reconstruction Attacks and Countermeasures of DNN training in Vertical Federated
Learning (arXiv:2210.06771), Algorithm 2 and Theorem 5.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy

from cutlayer.attacks.tools.binary.enumeration import Bits, bits_of, refuse_too_many, subset_sums
from cutlayer.attacks.tools.binary.span import Floats, checked, span_of, triangle_of
from cutlayer.errors import DataError
from cutlayer.progress import Progress, silent

Basis = Literal["columns", "svd"]
Select = Literal["normalised", "literal"]
MOST_BITS = 22  # a quarter of an hour of one core at 10,000 rows and 20 repeats
TABLE, ROWS = 8, 1_024  # bits and rows of a table: 1 MiB in float32
SAME = 0.9  # cosine above which two vectors are one finding: near-copies differ on sampled rows
TRIED, BATCH = 4_096, 16  # candidates of a draw that are looked through for distinct ones, and how many at a time
DIGITS = 9  # of a score: the rest is rounding


@dataclass(frozen=True)
class Close:
    """0/1 vectors, one per column, and how far each is from the span: the smaller the better, best first."""

    vectors: Bits
    scores: Floats


def basis_for(matrix: Floats, rank: int, basis: Basis) -> Floats:
    """An orthonormal basis of what stands for the span where noise has filled it.

    "columns": of `rank` columns of the matrix, as in the paper (the least dependent, by pivoted QR).
    "svd": of the strongest directions of all columns, in which noise averages out.
    """
    matrix = checked(matrix)
    if basis == "columns" and rank < matrix.shape[1]:
        _, pivots = scipy.linalg.qr(triangle_of(matrix, np.zeros(matrix.shape[1])), mode="r", pivoting=True)
        matrix = matrix[:, np.sort(pivots[:rank])]
    return span_of(matrix, rank=rank).basis


def close_vectors(
    basis: Floats,
    *,
    rng: np.random.Generator,
    select: Select = "normalised",
    sampled: int | None = None,
    repeats: int = 20,
    keep: int = 1,
    progress: Progress = silent,
) -> Close:
    """The `keep` best distinct vectors over `repeats` draws of `sampled` rows (rank + 1 unless told).

    "literal" minimises the squared distance to the span, and e = (1, 0, ..., 0) is a candidate: a
    device of the proof that wins as soon as there is noise. "normalised" divides the distance by the
    number of ones or of zeros, whichever is less, and leaves e and constants out.
    """
    count = basis.shape[1] + 1 if sampled is None else sampled
    refuse_too_many(count, MOST_BITS)
    vectors = np.eye(len(basis), 1, dtype=np.bool_)[:, : select == "literal"]
    for turn in range(repeats):
        best = _best(_extended(basis, count, rng), basis, select, keep)
        vectors = np.concatenate([vectors, best], axis=1)
        progress(turn + 1, repeats, "")
    scores = distance(basis, vectors, select)
    chosen = _distinct(vectors, scores, keep)
    return Close(vectors[:, chosen], scores[chosen])


def distance(basis: Floats, vectors: Bits, select: Select) -> Floats:
    """How far 0/1 vectors are from the span of an orthonormal basis: |x|^2 - |U^T x|^2, normalised or not."""
    dense = vectors.astype(np.float64)
    return _score(basis.T @ dense, dense.sum(axis=0), len(basis), select)


def _score(projections: Floats, ones: Floats, rows: int, select: Select) -> Floats:
    rest = np.maximum(ones - (projections**2).sum(axis=0), 0)
    rarer = np.minimum(ones, rows - ones) if select == "normalised" else (ones > 0).astype(np.float64)
    scores: Floats = np.divide(rest, rarer, out=np.full(len(ones), np.inf), where=rarer > 0)
    return scores


def _extended(basis: Floats, count: int, rng: np.random.Generator) -> Floats:
    """A matrix that takes bits on sampled rows to values on all rows: U pinv(D U_R) D, and the bits themselves on R."""
    leverage = (basis**2).sum(axis=1)
    if (leverage > 0).sum() < count:
        raise DataError(f"Expected at least {count} rows that are not zero, got fewer; collect more messages.")
    share = leverage / leverage.sum()
    rows = rng.choice(len(basis), size=count, replace=False, p=share)
    scale = 1 / np.sqrt(count * share[rows])
    extended: Floats = basis @ (np.linalg.pinv(scale[:, None] * basis[rows]) * scale)
    extended[rows] = np.eye(count)
    return extended


def _best(extended: Floats, basis: Floats, select: Select, keep: int) -> Bits:
    """The best distinct vectors of one draw."""
    scores = _all_scores(extended, basis, select)
    scores[0] = np.inf  # the zero vector
    order = scores.argsort()[:TRIED]
    order = order[np.isfinite(scores[order])]
    kept = np.empty((len(extended), 0), dtype=np.bool_)
    for i in range(0, len(order), BATCH * keep):  # several at a time: float32 may have swapped near ties
        numbers = order[i : i + BATCH * keep]
        rounded = extended @ bits_of(numbers, extended.shape[1]).T >= 0.5
        vectors = np.concatenate([kept, rounded], axis=1)
        kept = vectors[:, _distinct(vectors, distance(basis, vectors, select), keep)]
        if kept.shape[1] == keep:
            break
    return kept


def _all_scores(extended: Floats, basis: Floats, select: Select) -> Floats:
    """The score of every choice of bits; the sums run in float32 over tiles that stay in the cache."""
    count = extended.shape[1]
    low_bits, bits = min(TABLE, count), min(2 * TABLE, count)
    fixed = bits_of(np.arange(1 << (count - bits)), count - bits)  # the highest bits, one choice at a time
    return np.concatenate([_some_scores(extended, chosen, low_bits, basis, select) for chosen in fixed])


def _some_scores(extended: Floats, fixed: Floats, low_bits: int, basis: Floats, select: Select) -> Floats:
    """The scores of all choices that share their highest bits."""
    bits = extended.shape[1] - len(fixed)
    sums = np.zeros((1 << (bits - low_bits), 1 << low_bits, basis.shape[1] + 1), dtype=np.float32)
    for i in range(0, len(extended), ROWS):
        part = extended[i : i + ROWS]
        low = subset_sums(part[:, :low_bits]).T.astype(np.float32, order="C")
        limits = 0.5 - part[:, bits:] @ fixed - subset_sums(part[:, low_bits:bits]).T
        weights = np.column_stack([basis[i : i + ROWS], np.ones(len(part))]).astype(np.float32)
        rounded = np.empty_like(low)
        for total, limit in zip(sums, limits.astype(np.float32, order="C"), strict=True):
            np.greater_equal(low, limit, out=rounded)
            total += rounded @ weights
    flat = sums.reshape(-1, sums.shape[2]).T.astype(np.float64)
    return _score(flat[:-1], flat[-1], len(extended), select)


def _distinct(vectors: Bits, scores: Floats, keep: int) -> list[int]:
    """The best `keep` of vectors that are not near-copies of each other; ties go by where the ones are."""
    dense = vectors.astype(np.float64)
    length, place = np.sqrt(dense.sum(axis=0)), np.arange(len(dense)) @ dense
    chosen: list[int] = []
    for i in np.lexsort((place, scores.round(DIGITS))):
        if len(chosen) == keep or not np.isfinite(scores[i]):
            break
        if (dense[:, chosen].T @ dense[:, i] <= SAME * length[chosen] * length[i]).all():
            chosen.append(int(i))
    return chosen
