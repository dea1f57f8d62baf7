"""Catalogue: the two-valued columns found so far, each tested exactly, on all rows, before it is listed."""

import numpy as np

from cutlayer.attacks.tools.binary.polish import Bits, Floats, lloyd, unit

NEAR = 0.05  # of the distance between the levels: how far a value may lie from its level
SAME = 1 - 1e-4  # cosine of directions that cannot be told apart before the bits are compared
INDEPENDENT = 1e-4  # of its length: what a direction must have outside the span of those found to count
FEW, MOST = 16, 4  # found columns, in all and per dimension, beyond which mere sums of others are not added
AT_ONCE = 2_000_000  # values held at a time


class Catalogue:
    """Found columns in whitened rows, up to complement, and the directions that give them.

    A column is listed only if the span explains all of its variance but `limit`, and no value
    lies between the levels. Neither a sample of rows nor a float32 estimate ever decides.
    """

    def __init__(self, points: Floats, limit: float = 1e-6) -> None:
        self.points = points
        self.limit = limit
        self.directions: Floats = np.zeros((points.shape[1], 0))
        self.independent: Floats = self.directions  # an orthonormal basis of the directions
        self.residuals: list[float] = []
        self._columns: dict[bytes, Bits] = {}

    def __len__(self) -> int:
        return len(self._columns)

    @property
    def rank(self) -> int:
        """How many of the found columns are independent; the others are sums of these."""
        return int(self.independent.shape[1])

    @property
    def columns(self) -> Bits:
        """The columns found, a row each; the first row of the data is always 0."""
        return np.array(list(self._columns.values()), dtype=np.bool_).reshape(len(self), len(self.points))

    def offer(self, directions: Floats, steps: int = 4) -> None:
        """Polish candidates on all rows, test them and keep those that pass."""
        directions = _distinct(unit(directions.astype(np.float64)), self.directions)
        batch = max(1, AT_ONCE // len(self.points))
        for start in range(0, directions.shape[1], batch):
            part = directions[:, start : start + batch]
            for _ in range(steps):
                part, _ = lloyd(self.points, part)
            for direction in _distinct(unit(part), self.directions).T:
                self._test(direction)

    def test(self, bits: Bits) -> bool:
        """Whether a column lies in the span; if so it is listed."""
        share = bits.mean()
        if not 0 < share < 1:
            return False
        direction = self.points.T @ bits / len(bits)
        residual = 1 - float(direction @ direction) / float(share * (1 - share))
        if residual >= self.limit:
            return False
        fitted = self.points @ direction + share
        if np.abs(fitted - bits).max() > NEAR:
            return False
        key = np.packbits(bits ^ bits[0]).tobytes()
        if key not in self._columns:
            self._columns[key] = bits ^ bits[0]
            self.residuals.append(max(residual, 0.0))
            self._add(unit(direction[:, None]))
        return True

    def _add(self, direction: Floats) -> None:
        self.directions = np.column_stack([self.directions, direction])
        if self._leads_out(direction):
            rest = direction - self.independent @ (self.independent.T @ direction)
            rest -= self.independent @ (self.independent.T @ rest)
            self.independent = np.column_stack([self.independent, unit(rest)])

    def complement(self) -> Floats:
        """An orthonormal basis of all that is orthogonal to the found directions.

        Starts are drawn there; they are polished in the whole space, since other columns need not be
        orthogonal to those found.
        """
        known = self.independent
        whole, _ = np.linalg.qr(np.column_stack([known, np.eye(len(known))]))
        return whole[:, known.shape[1] : len(known)]

    def _leads_out(self, direction: Floats) -> bool:
        """Whether a direction is more than a combination of those found."""
        rest = direction - self.independent @ (self.independent.T @ direction)
        return bool(np.linalg.norm(rest) > INDEPENDENT)

    def _test(self, direction: Floats) -> None:
        if len(self) >= max(FEW, MOST * self.rank) and not self._leads_out(direction[:, None]):
            return
        values = self.points @ direction
        self.test(values > (values**3).mean() / 2)


def _distinct(directions: Floats, known: Floats) -> Floats:
    """The directions that are neither known nor given twice, up to sign."""
    kept: list[int] = []
    new = np.abs(known.T @ directions).max(axis=0, initial=0) < SAME
    for place in np.flatnonzero(new):
        if not kept or np.abs(directions[:, kept].T @ directions[:, place]).max() < SAME:
            kept.append(int(place))
    return directions[:, kept]
