"""Relations: all quadratic relations that hold in every row, as the null space of a matrix of products.

Every two-valued column is such a relation. None at all is thus a proof that no column of the span
is two-valued; and where there are some, all two-valued columns lie in the span of their
coefficients, which is often small enough to enumerate.

Specification: binary-search, section 3.
"""

from dataclasses import dataclass

import numpy as np
import scipy

from cutlayer.attacks.tools.binary.polish import Floats

CHUNK = 2_000  # rows whose products are held at a time
DENSE = 1_500  # unknowns up to which all eigenvalues are computed
BLOCK, INVERSE = 60, 4  # vectors and steps of the inverse iteration
SHIFT = 1e-8
NULL = 1e-9  # eigenvalue, of products scaled to unit size, below which a relation is exact
CLEAR = 1e-4  # of the first: singular values of coefficients that count; rounding gives 1e-7


def unknowns(rank: int) -> int:
    """How many products there are: pairs, squares, single ones and the constant."""
    return rank * (rank + 3) // 2 + 1


def products(points: Floats) -> Floats:
    """x_a x_b for a < b, x_a^2 / sqrt 2, x_a and 1, a row each."""
    first, second = np.triu_indices(points.shape[1])
    pairs = points[:, first] * points[:, second]
    pairs[:, first == second] *= 0.5**0.5
    return np.column_stack([pairs, points, np.ones(len(points))])


@dataclass(frozen=True)
class Relations:
    """What holds in every row, and where two-valued columns can lie at all."""

    nullity: int
    least: float  # the smallest eigenvalue that is not null: how far from one relation more
    directions: Floats  # orthonormal, rank x dimension: all two-valued directions lie in their span


def relations(points: Floats, null: float = NULL) -> Relations:
    """The relations of whitened rows. Needs more rows than unknowns."""
    rank = points.shape[1]
    gram = np.zeros((unknowns(rank), unknowns(rank)))
    for start in range(0, len(points), CHUNK):
        part = products(points[start : start + CHUNK])
        gram += part.T @ part
    scale = np.sqrt(np.diagonal(gram))
    gram /= np.outer(scale, scale)
    values, vectors = _smallest(gram, null)
    count = int((values < null).sum())
    if count == len(values):  # too many to list: they confine nothing
        return Relations(count, 0.0, np.eye(rank))
    return Relations(count, float(values[count]), _directions(vectors[:, :count] / scale[:, None], rank))


def _smallest(gram: Floats, null: float) -> tuple[Floats, Floats]:
    """The smallest eigenvalues, in order, with at least one that is not null, and their vectors."""
    size = len(gram)
    if size <= DENSE:
        values, vectors = np.linalg.eigh(gram)
        return values, vectors
    shifted = gram.copy()
    shifted[np.diag_indices(size)] += SHIFT
    factor = scipy.linalg.cho_factor(shifted, lower=True, overwrite_a=True, check_finite=False)
    block = BLOCK
    while True:
        vectors = np.linalg.qr(np.random.default_rng(0).standard_normal((size, block)))[0]
        for _ in range(INVERSE):
            vectors = np.linalg.qr(scipy.linalg.cho_solve(factor, vectors, check_finite=False))[0]
        values, turn = np.linalg.eigh(vectors.T @ (gram @ vectors))
        if values[-1] >= null or block >= size // 4:
            return values, vectors @ turn
        block *= 4


def _directions(coefficients: Floats, rank: int) -> Floats:
    """The span of all rows of the matrices A and of the vectors v of the relations."""
    first, second = np.triu_indices(rank)
    stack = np.zeros((rank, rank))
    for vector in coefficients.T:
        matrix = np.zeros((rank, rank))
        matrix[first, second] = vector[: len(first)] * np.where(first == second, 0.5**1.5, 0.5)
        matrix = matrix + matrix.T
        linear = vector[len(first) : -1]
        stack += matrix @ matrix + np.outer(linear, linear)
    values, vectors = np.linalg.eigh(stack)
    return vectors[:, values > CLEAR**2 * max(values[-1], np.finfo(float).tiny)][:, ::-1]
