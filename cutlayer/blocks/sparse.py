"""Sparse rows: a table with very many columns, of which each row fills a few (tf-idf text).

Torch's own CSR tensors cannot be indexed by rows, which is all that a party does with its
features, so rows are kept as three flat tensors and cut out without any per-row work.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


class CompressedRows(Protocol):
    """What is read of a SciPy matrix in CSR form."""

    indptr: NDArray[np.integer]
    indices: NDArray[np.integer]
    data: NDArray[np.floating]
    shape: tuple[int, int]


class SparseMatrix(Protocol):
    """What is asked of any sparse matrix of SciPy, which has no types of its own."""

    def tocsr(self) -> CompressedRows:
        """Compress it row by row."""
        ...


@dataclass(frozen=True, slots=True)
class SparseRows:
    """Rows of a sparse matrix. `rows[index]` gives a smaller SparseRows."""

    offsets: Tensor  # (rows + 1,) where each row starts in `columns` and `values`
    columns: Tensor  # (filled,) int64
    values: Tensor  # (filled,) float32
    width: int

    @classmethod
    def from_scipy(cls, matrix: SparseMatrix) -> "SparseRows":
        """Copy a SciPy sparse matrix."""
        csr = matrix.tocsr()
        return cls(
            torch.from_numpy(csr.indptr.astype(np.int64)),
            torch.from_numpy(csr.indices.astype(np.int64)),
            torch.from_numpy(csr.data.astype(np.float32)),
            int(csr.shape[1]),
        )

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns, as of a dense matrix."""
        return len(self.offsets) - 1, self.width

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, rows: Tensor) -> "SparseRows":
        lengths = self.offsets[rows + 1] - self.offsets[rows]
        offsets = torch.cat([lengths.new_zeros(1), lengths.cumsum(0)])
        within = torch.arange(int(offsets[-1]), device=rows.device) - offsets[:-1].repeat_interleave(lengths)
        source = self.offsets[rows].repeat_interleave(lengths) + within
        return SparseRows(offsets, self.columns[source], self.values[source], self.width)

    def index_select(self, dim: int, rows: Tensor) -> "SparseRows":
        """Cut rows out, under the name that tensors use."""
        return self[rows]

    def to(self, device: str | torch.device) -> "SparseRows":
        """Move to a device."""
        return SparseRows(self.offsets.to(device), self.columns.to(device), self.values.to(device), self.width)

    def to_dense(self) -> Tensor:
        """Fill a dense matrix (small ones only)."""
        dense = torch.zeros(self.shape, device=self.values.device)
        row = torch.arange(len(self), device=dense.device).repeat_interleave(self.offsets.diff())
        return dense.index_put((row, self.columns), self.values, accumulate=True)
