"""The ring Z_t, t = 2^bits: fixed-point numbers as residues, exact sums and products, uniform masks.

Floats cannot be masked perfectly: a sum with a large float mask loses digits, and its size still
says something about what it hides. In a finite ring a uniform mask hides *perfectly*, and sums that
wrap round come back exactly. Residues are int64 in [0, t); the upper half stands for negatives.

2^bits divides 2^64, so machine arithmetic that wraps round at 2^64 is exact modulo t.
"""

import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cutlayer._validate import at_least
from cutlayer.blocks.sparse import SparseRows
from cutlayer.crypto.rows import PlainRows
from cutlayer.errors import ConfigError, DataError

Residues = NDArray[np.int64]
Floats = NDArray[np.float64]

LEAST_BITS, MOST_BITS = 8, 56


@dataclass(frozen=True, slots=True)
class Ring:
    """Integers modulo 2^bits, read as fixed point with `fraction` bits behind the point."""

    bits: int = 40
    fraction: int = 14

    def __post_init__(self) -> None:
        if not LEAST_BITS <= self.bits <= MOST_BITS:
            raise ConfigError(f"Expected bits={self.bits} to lie between {LEAST_BITS} and {MOST_BITS}.")
        if not 0 <= self.fraction < self.bits:
            raise ConfigError(f"Expected fraction={self.fraction} to lie between 0 and bits - 1 = {self.bits - 1}.")

    @property
    def modulus(self) -> int:
        """The number of residues, t."""
        return 1 << self.bits

    @property
    def bytes_each(self) -> int:
        """Bytes that hold one residue."""
        return -(-self.bits // 8)

    def encode(self, values: Floats | Tensor, fraction: int | None = None) -> Residues:
        """Round to fixed point; refuse numbers that do not fit, naming columns and counts but never values."""
        if isinstance(values, Tensor):
            values = values.detach().to("cpu", torch.float64).numpy()
        return self.wrap(self._fixed(np.asarray(values, np.float64), self._places(fraction)))

    def encode_rows(self, values: Floats | Tensor | SparseRows, fraction: int | None = None) -> PlainRows:
        """Encode the plain factor of a product; of sparse rows only what they hold is kept."""
        if not isinstance(values, SparseRows):
            return PlainRows.dense(self.centred(self.encode(values, fraction)))
        scaled = np.rint(np.ldexp(values.values.cpu().double().numpy(), self._places(fraction)))
        columns = values.columns.cpu().numpy()
        bad = self._outside(scaled)
        if bad.any():
            self._refuse(columns[bad])
        rows = np.repeat(np.arange(len(values)), values.offsets.cpu().diff().numpy())
        held = scaled != 0  # what rounds to zero need not be multiplied
        return PlainRows(values.shape, rows[held], columns[held], scaled[held].astype(np.int64))

    def decode(self, residues: Residues, fraction: int | None = None) -> Floats:
        """Read residues as signed fixed point; a product of two encodings has twice the fraction."""
        return np.ldexp(self.centred(residues).astype(np.float64), -self._places(fraction))

    def wrap(self, integers: Residues) -> Residues:
        """Reduce modulo t into [0, t)."""
        return np.asarray(integers, np.int64) & np.int64(self.modulus - 1)

    def centred(self, residues: Residues) -> Residues:
        """Residues as signed numbers in [-t/2, t/2)."""
        half = np.int64(self.modulus >> 1)
        return ((np.asarray(residues, np.int64) + half) & np.int64(self.modulus - 1)) - half

    def add(self, left: Residues, right: Residues) -> Residues:
        """Sum modulo t."""
        return self.wrap(left + right)

    def subtract(self, left: Residues, right: Residues) -> Residues:
        """Difference modulo t."""
        return self.wrap(left - right)

    def sum(self, terms: Iterable[Residues]) -> Residues:
        """Sum of several matrices of one shape, modulo t."""
        matrices = [np.asarray(term, np.int64) for term in terms]
        if len({matrix.shape for matrix in matrices}) != 1:
            raise DataError(f"Expected terms of one shape, got {sorted({m.shape for m in matrices})}.")
        return self.wrap(sum(matrices, start=np.zeros(matrices[0].shape, np.int64)))

    def matmul(self, left: Residues | PlainRows, right: Residues) -> Residues:
        """Product modulo t, exact: int64 wraps round at 2^64, which t divides."""
        if isinstance(left, PlainRows):
            return self.wrap(left.times(right))
        return self.wrap(PlainRows.dense(np.asarray(left, np.int64)).times(right))

    def uniform(self, shape: Sequence[int]) -> Residues:
        """Residues from the operating system's generator: each equally likely, so a mask hides perfectly."""
        return self.from_stream(os.urandom(math.prod(shape) * self.bytes_each), shape)

    def from_stream(self, stream: bytes, shape: Sequence[int]) -> Residues:
        """Turn a stream of random bytes into residues (t is a power of two, so there is no bias)."""
        words = np.zeros((math.prod(shape), 8), np.uint8)
        words[:, : self.bytes_each] = np.frombuffer(stream, np.uint8).reshape(len(words), self.bytes_each)
        return self.wrap(words.view("<i8").reshape(shape))

    def check(self, residues: Residues, name: str = "matrix") -> Residues:
        """Refuse anything but a two-dimensional int64 array of residues."""
        array = np.asarray(residues)
        if array.dtype != np.int64 or array.ndim != 2:
            raise DataError(f"Expected {name} to be a matrix of int64 residues, got {array.ndim}-d {array.dtype}.")
        if array.size and (int(array.min()) < 0 or int(array.max()) >= self.modulus):
            raise DataError(f"Expected {name} to hold residues in [0, 2^{self.bits}); encode it first.")
        return array

    def check_rows(self, rows: Residues | PlainRows) -> PlainRows:
        """The plain factor of a product, with all its numbers in range."""
        if not isinstance(rows, PlainRows):
            return PlainRows.dense(self.centred(self.check(rows, "rows")))
        if not np.array_equal(self.centred(rows.values), rows.values):
            raise DataError(f"Expected rows to hold signed numbers of {self.bits} bits; encode them first.")
        return rows

    def check_product(self, terms: int, left: float, right: float) -> None:
        """Refuse sizes with which a product could wrap round: no party sees both factors, so both declare a bound.

        `terms` numbers of size at most `left` meet as many of at most `right`, both with this ring's fraction.
        """
        at_least("terms", terms, 1)
        top = math.log2(max(terms * left * right, 2.0**-1000)) + 2 * self.fraction
        if top >= self.bits - 1:
            raise ConfigError(
                f"Expected products below 2^{self.bits - 1}, got up to 2^{top:.1f} with fraction={self.fraction}; "
                "use a smaller fraction or a larger ring."
            )

    def _places(self, fraction: int | None) -> int:
        return self.fraction if fraction is None else fraction

    def _fixed(self, values: Floats, fraction: int) -> Residues:
        scaled = np.rint(np.ldexp(values, fraction))
        bad = self._outside(scaled)
        if bad.any():
            self._refuse(np.nonzero(bad)[-1] if bad.ndim else np.zeros(1, np.int64))
        return scaled.astype(np.int64)

    def _outside(self, scaled: Floats) -> NDArray[np.bool_]:
        half = float(self.modulus >> 1)
        return ~((scaled >= -half) & (scaled < half))  # not-a-number counts as outside

    def _refuse(self, columns: NDArray[np.int64]) -> None:
        worst, counts = np.unique(columns, return_counts=True)
        further = f" (and {len(worst) - 1} more columns)" if len(worst) > 1 else ""
        raise DataError(
            f"Column {worst[0]} has {counts[0]} rows outside the fixed-point range of {self.bits} bits{further}; "
            "scale the column or use a smaller fraction."
        )
