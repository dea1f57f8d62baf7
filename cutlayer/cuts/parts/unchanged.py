"""Unchanged: whether a row enters the label party's last layer as it did when its product was shared."""

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from cutlayer.blocks.sparse import SparseRows
from cutlayer.errors import ConfigError


class Unchanged:
    """Prints of the rows that entered so far; the rows themselves are not kept."""

    def __init__(self) -> None:
        self._prints: dict[int, int] = {}

    def check(self, rows: NDArray[np.int64], entered: Tensor | SparseRows) -> None:
        """Refuse a row that differs from what entered under its number before."""
        for row, seen in zip(rows.tolist(), prints(entered), strict=True):
            if self._prints.setdefault(row, seen) != seen:
                raise ConfigError(
                    "Expected the label party's rows to stay as they are under secure-sum, got a row that changed: "
                    "leave out what changes rows in a batch (instahide; dropout or batch norm before the linear layer)."
                )


def prints(rows: Tensor | SparseRows) -> list[int]:
    """A hash of each row's bytes, of 64 bits."""
    if isinstance(rows, SparseRows):
        offsets = rows.offsets.cpu().tolist()
        columns, values = rows.columns.cpu().numpy(), rows.values.cpu().numpy()
        spans = [slice(start, end) for start, end in pairwise(offsets)]
        return [hash((columns[span].tobytes(), values[span].tobytes())) for span in spans]
    return [hash(row.tobytes()) for row in rows.detach().cpu().numpy()]
