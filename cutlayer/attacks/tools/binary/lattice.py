"""Lattice: integer columns of a span, two-valued ones among them, from few rows of exact messages (Route C).

A column of the span is fixed by its values on the pivot rows; if it is integer there and on further rows,
it is a short vector of the lattice of all integer values on the pivot rows, joined with what
these imply elsewhere, times a large number. Reduction by LLL finds the short vectors: binary, small
integer and constant columns together. About 2.4 rows per dimension are enough; noise defeats it.

Specification: binary-search, section 6.
"""

import importlib
from typing import Any

import numpy as np

from cutlayer.attacks.tools.binary.polish import Floats
from cutlayer.attacks.tools.binary.span import Span, pivot_rows
from cutlayer.errors import ConfigError

FURTHER = 1.4  # rows beyond the pivot rows, per dimension
SCALES = (2**20, 2**18, 2**16)  # half the inverse of the rounding error, which the attacker does not know
WHOLE = 0.05  # how far from integers a column may be, on any row
MOST = 90  # dimension beyond which reduction takes hours


def integer_columns(span: Span, rng: np.random.Generator) -> Floats:
    """Columns of a centred span and the constant that are integers on every row, one per column of the result."""
    rows = len(span.basis)
    basis = np.column_stack([np.full(rows, rows**-0.5), span.basis])
    size = basis.shape[1]
    if size > MOST:
        raise ConfigError(f"Expected rank={span.rank} to be below {MOST} for a lattice; use method='auto'.")
    pivots = pivot_rows(basis)
    implied = np.linalg.solve(basis[pivots].T, basis.T).T  # rows x size: values everywhere from those on the pivots
    rest = np.setdiff1d(np.arange(rows), pivots)
    further = rng.permutation(rest)[: round(FURTHER * size)]
    for scale in SCALES:
        columns = _whole(_reduced(implied[further], scale)[:, :size], implied)
        if columns.shape[1] > 1:  # more than the constant
            return columns
    return columns


def _reduced(implied: Floats, scale: int) -> Floats:
    """The reduced basis, shortest vectors first."""
    rows, size = implied.shape
    scaled = np.rint(scale * implied).astype(np.int64)
    basis = [[int(i == j) for j in range(size)] + scaled[:, i].tolist() for i in range(size)]
    basis += [[0] * size + [scale * int(i == j) for j in range(rows)] for i in range(rows)]
    fpylll = _fpylll()
    matrix = fpylll.IntegerMatrix.from_matrix(basis)
    fpylll.LLL.reduction(matrix)
    return np.array([[float(matrix[i, j]) for j in range(size + rows)] for i in range(size + rows)])


def _whole(pivots: Floats, implied: Floats) -> Floats:
    """Columns from their values on the pivots, if they are integers on all rows and not zero."""
    columns = implied @ pivots.T
    rounded = np.rint(columns)
    return rounded[:, (np.abs(columns - rounded).max(axis=0) < WHOLE) & (rounded != 0).any(axis=0)]


def _fpylll() -> Any:
    try:
        return importlib.import_module("fpylll")
    except ImportError as error:
        raise ConfigError("Expected the package fpylll for method='lattice'; pip install fpylll.") from error
