"""Polytope: every 0/1 column is a vertex of {w : 0 <= column of w <= 1}, so linear programmes lead to it.

A column of the span with all values in [0, 1] is a point of a polytope with one dimension more than
the rank. A 0/1 column makes the constraint of every row tight; the cone of objectives that lead to
it is spanned by all rows, hence wide. The weight of the mean chooses the frequency: a penalty
leads to rare values, as the 1-norm does in the recovery of sparse vectors.

The method is ours; it stands beside the seeds of the specification: binary-search, section 4.
"""

import numpy as np
import scipy

from cutlayer.attacks.tools.binary.polish import Floats

STEPS = 40
GAP = 1e-3  # of the objective: near enough for rounding
SHORT = 0.99  # of the way to the nearest wall


def maximise(wide: Floats, objective: Floats) -> Floats:
    """The values of the column that an objective prefers among those in [0, 1].

    `wide` is the rows with a 1 at the end; so the last coordinate of the objective weighs the mean.
    """
    inside = _Inside(wide, objective / np.linalg.norm(objective))
    for _ in range(STEPS):
        if inside.gap < GAP * max(abs(inside.reached), 1e-3) or not inside.step():
            break
    return inside.low


class _Inside:
    """Mehrotra's predictor and corrector, from the centre, where all values are 1/2."""

    def __init__(self, wide: Floats, goal: Floats) -> None:
        self.wide, self.goal = wide, goal
        self.low = self.high = np.full(len(wide), 0.5)  # distances to the walls at 0 and 1
        self.below = self.above = np.full(len(wide), 2.0 / len(wide))  # prices of the walls
        self.reached = float(goal[-1]) / 2

    @property
    def gap(self) -> float:
        """What the objective may still gain at most, once the prices balance."""
        return float(self.below @ self.low + self.above @ self.high)

    def step(self) -> bool:
        """Move inside; whether float64 allowed it."""
        scaled = self.wide * np.sqrt(self.below / self.low + self.above / self.high)[:, None]
        matrix = scaled.T @ scaled
        matrix[np.diag_indices_from(matrix)] *= 1 + 1e-12
        try:
            factor = scipy.linalg.cho_factor(matrix, check_finite=False)
        except scipy.linalg.LinAlgError:
            return False
        _, up, below, above = self._towards(factor, -self.below * self.low, -self.above * self.high)
        primal, dual = self._room(up, below, above)
        after = (self.below + dual * below) @ (self.low + primal * up)
        after += (self.above + dual * above) @ (self.high - primal * up)
        centre = (after / self.gap) ** 3 * self.gap / (2 * len(up))
        move, up, below, above = self._towards(
            factor, centre - self.below * self.low - up * below, centre - self.above * self.high + up * above
        )
        primal, dual = (SHORT * room for room in self._room(up, below, above))
        self.low, self.high = self.low + primal * up, self.high - primal * up
        self.below, self.above = self.below + dual * below, self.above + dual * above
        self.reached += primal * float(self.goal @ move)
        return True

    def _towards(self, factor: tuple[Floats, bool], low: Floats, high: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """The Newton step that changes the products of distance and price so; of weights, values and prices."""
        missing = self.goal - self.wide.T @ (self.above - self.below + high / self.high - low / self.low)
        move: Floats = scipy.linalg.cho_solve(factor, missing, check_finite=False)
        up: Floats = self.wide @ move
        return move, up, (low - self.below * up) / self.low, (high + self.above * up) / self.high

    def _room(self, up: Floats, below: Floats, above: Floats) -> tuple[float, float]:
        """The largest steps, up to 1, that keep all distances, and all prices, positive."""
        primal = max((-up / self.low).max(), (up / self.high).max(), 1.0)
        dual = max((-below / self.below).max(), (-above / self.above).max(), 1.0)
        return 1 / float(primal), 1 / float(dual)
