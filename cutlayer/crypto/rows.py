"""The plain factor of a product: signed integers, kept as they come, dense or by their non-zero entries."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from cutlayer.errors import DataError

Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, repr=False)
class PlainRows:
    """A matrix of signed integers by its non-zero entries. It is private, so its repr shows the shape only."""

    shape: tuple[int, int]
    rows: Integers  # (entries,)
    columns: Integers  # (entries,)
    values: Integers  # (entries,) signed
    whole: Integers | None = field(default=None)  # the dense matrix, where it came as one

    def __post_init__(self) -> None:
        if len({len(self.rows), len(self.columns), len(self.values)}) != 1:
            raise DataError("Expected as many rows as columns and values in sparse rows.")
        for name, index, end in (("row", self.rows, self.shape[0]), ("column", self.columns, self.shape[1])):
            if len(index) and (int(index.min()) < 0 or int(index.max()) >= end):
                raise DataError(f"Expected every {name} index of sparse rows to lie in [0, {end}).")
        if self.whole is None and len(np.unique(self.rows * self.shape[1] + self.columns)) != len(self.rows):
            raise DataError("Expected one entry per row and column of sparse rows, got some twice.")

    @classmethod
    def dense(cls, matrix: Integers) -> "PlainRows":
        """Take a dense matrix of signed integers."""
        if matrix.ndim != 2:
            raise DataError(f"Expected rows as a matrix, got {matrix.ndim} dimensions.")
        rows, columns = np.nonzero(matrix)
        return cls((matrix.shape[0], matrix.shape[1]), rows, columns, matrix[rows, columns], matrix)

    def chunks(self, size: int) -> Iterator["PlainRows"]:
        """Cut into runs of at most `size` rows."""
        for start in range(0, self.shape[0], size):
            stop = min(start + size, self.shape[0])
            if self.whole is not None:
                yield PlainRows.dense(self.whole[start:stop])
                continue
            inside = (self.rows >= start) & (self.rows < stop)
            shape = (stop - start, self.shape[1])
            yield PlainRows(shape, self.rows[inside] - start, self.columns[inside], self.values[inside])

    def times(self, right: Integers) -> Integers:
        """The plain product, wrapping round at 2^64."""
        if self.whole is not None:
            import torch  # not above: processes that encrypt (noisy.py) start ten times faster without

            # Its int64 product wraps round as NumPy's does, and is about 15 times faster.
            product = torch.from_numpy(np.ascontiguousarray(self.whole)) @ torch.from_numpy(np.ascontiguousarray(right))
            return np.asarray(product.numpy(), np.int64)
        out = np.zeros((self.shape[0], right.shape[1]), np.int64)
        np.add.at(out, self.rows, self.values[:, None] * right[self.columns])
        return out

    def absolute_sum(self) -> int:
        """The sum of absolute values: bounds how far a product can amplify noise."""
        sizes = np.abs(self.values)
        return (int((sizes >> 28).sum()) << 28) + int((sizes & ((1 << 28) - 1)).sum())  # in two halves: no overflow

    def __repr__(self) -> str:
        return f"PlainRows(shape={self.shape})"
