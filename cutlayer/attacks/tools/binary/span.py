"""Span: the column space of a matrix of messages, which is all that linear messages give away.

Messages Z = X W^T with a W of full column rank span the same space as the columns X themselves, so
every search for a 0/1 column starts here. All is done in float64, whatever came: float32 rounding
shows as a cliff in the singular values, and the rank is read at that cliff.

Specification: binary-reconstruction, sections 2 and 8.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import scipy
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from cutlayer.errors import ConfigError, DataError

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Real = TypeVar("Real", np.float32, np.float64)
CHUNK = 8_192  # rows that are copied to float64 at a time
FLOOR = 1e-15  # of the largest singular value: rounding in float64, below which all are alike
CLIFF = 1e3  # a drop of the singular values that ends the rank; noise alone never makes one
FLAT = 1e-7  # of the size of the messages: rows that differ by less are equal, seen in float32


@dataclass(frozen=True)
class Span:
    """The column space of a matrix, centred or not."""

    basis: Floats  # rows x rank, orthonormal columns; the first m span the m strongest directions
    values: Floats  # all singular values, largest first
    centred: bool

    @property
    def rank(self) -> int:
        """Its dimension."""
        return int(self.basis.shape[1])


def checked(matrix: ArrayLike | Tensor) -> Floats:
    """An array or a tensor as a float64 matrix."""
    return as_array(matrix).astype(np.float64)


def as_array(matrix: ArrayLike | Tensor) -> Singles | Floats:
    """The matrix as float32 or float64, checked: two dimensions, not empty, finite."""
    if isinstance(matrix, Tensor):
        matrix = matrix.detach().cpu()
        matrix = (matrix if matrix.dtype in (torch.float32, torch.float64) else matrix.double()).numpy()
    array = np.asarray(matrix)
    if array.ndim != 2 or not array.size:
        raise DataError(f"Expected a matrix of messages, rows x width, got shape {array.shape}; flatten each row.")
    if array.dtype not in (np.float32, np.float64):
        array = array.astype(np.float64)
    if not all(np.isfinite(array[i : i + CHUNK]).all() for i in range(0, len(array), CHUNK)):
        raise DataError("Expected finite messages, got NaN or infinity; drop these rows or train with a lower rate.")
    return array


def span_of(matrix: ArrayLike | Tensor, *, centred: bool = False, rank: int | None = None) -> Span:
    """The column space, of a given rank or down to the largest drop of the singular values.

    Centring takes the mean off each column: a bias is gone and a column counts in any affine coding,
    at the price of the all-ones vector, which the caller adds if it searches for 0/1 vectors.
    """
    array = as_array(matrix)
    mean = array.mean(axis=0, dtype=np.float64) if centred else np.zeros(array.shape[1])
    triangle = triangle_of(array, mean)
    _, values, right = np.linalg.svd(triangle, full_matrices=False)
    if not values.size or values[0] <= FLAT * np.abs(mean).max() * len(array) ** 0.5:
        raise DataError("Expected rows that differ, got a matrix of rank zero; all messages are equal, so none tells.")
    dimension = _rank(values) if rank is None else rank
    _check_rank(dimension, values, len(array), centred)
    scaled = right[:dimension].T / values[:dimension]
    basis = np.concatenate([part @ scaled for part in _parts(array, mean)])
    upper = scipy.linalg.cholesky(basis.T @ basis)
    return Span(scipy.linalg.solve_triangular(upper, basis.T, trans="T").T, values, centred)


def triangle_of(array: Singles | Floats, mean: Floats) -> Floats:
    """R of a QR, which never holds more than a chunk of rows: accurate to 1e-16, where Z^T Z has 1e-8."""
    triangle: Floats = np.empty((0, array.shape[1]))
    for part in _parts(array, mean):
        triangle = np.asarray(np.linalg.qr(np.vstack([triangle, part]), mode="r"))
    return triangle


def pivot_rows(basis: Floats) -> NDArray[np.intp]:
    """As many rows as there are columns, far from dependent: the first pivots of a QR of the transpose."""
    _, pivots = scipy.linalg.qr(basis.T, mode="r", pivoting=True, check_finite=False)
    rows: NDArray[np.intp] = pivots[: basis.shape[1]].astype(np.intp)
    return rows


def _parts(array: Singles | Floats, mean: Floats) -> Iterator[Floats]:
    for i in range(0, len(array), CHUNK):
        yield array[i : i + CHUNK].astype(np.float64) - mean


def _rank(values: Floats) -> int:
    """Where the singular values drop most, if they drop at all; else every direction counts."""
    floored = np.maximum(values, FLOOR * values[0])
    drops = floored[:-1] / floored[1:]
    return int(drops.argmax()) + 1 if drops.size and drops.max() >= CLIFF else len(values)


def _check_rank(rank: int, values: Floats, rows: int, centred: bool) -> None:
    if rank < 1:
        raise ConfigError(f"Expected rank={rank} to be at least 1.")
    if rows <= rank + centred:
        raise DataError(
            f"Expected more rows than the rank {rank + centred}, got {rows}: every vector lies in such a span; "
            "collect more messages."
        )
    if rank > len(values) or values[rank - 1] <= FLOOR * values[0]:
        real = int((values > FLOOR * values[0]).sum())
        raise DataError(f"Expected rank={rank} directions, the messages have {real}; ask for at most as many.")
