"""Shares: one additive share per row, kept for as long as the row's value does not change."""

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.number]  # residues; floats where nothing is encrypted


class Shares:
    """A table of shares that grows with the rows that come up."""

    def __init__(self) -> None:
        self._known = np.zeros(0, dtype=np.bool_)
        self._values: Numbers = np.zeros((0, 0), dtype=np.int64)

    def missing(self, rows: NDArray[np.int64]) -> NDArray[np.intp]:
        """Places in `rows` of those that have no share yet, each row once."""
        _, first = np.unique(rows, return_index=True)
        new = [place for place in np.sort(first) if rows[place] >= len(self._known) or not self._known[rows[place]]]
        return np.array(new, dtype=np.intp)

    def add(self, rows: NDArray[np.int64], shares: Numbers) -> None:
        """Keep the shares of rows that had none."""
        room = int(rows.max()) + 1
        if room > len(self._known):
            grown = np.zeros((max(room, 2 * len(self._known)), shares.shape[1]), dtype=shares.dtype)
            grown[: len(self._values)] = self._values if self._values.size else 0
            self._values = grown
            self._known = np.pad(self._known, (0, len(grown) - len(self._known)))
        self._values[rows], self._known[rows] = shares, True

    def of(self, rows: NDArray[np.int64]) -> Numbers:
        """The shares of rows that have one."""
        return self._values[rows]
