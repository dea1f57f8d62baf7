"""Polytope: every 0/1 column is a vertex of {w : 0 <= column of w <= 1}, so linear programmes lead to it.

A column of the span with all values in [0, 1] is a point of a polytope with one dimension more than
the rank. A 0/1 column makes the constraint of every row tight; the cone of objectives that lead to
it is spanned by all rows, hence wide. The weight of the mean chooses the frequency: a penalty
leads to rare values, as the 1-norm does in the recovery of sparse vectors.

The method is ours; it stands beside the seeds of the specification: binary-search, section 4.
"""

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from cutlayer.binary.polish import Floats

STEPS = 40
GAP = 1e-3  # of the objective: near enough for rounding
SHORT = 0.99  # of the way to the nearest wall


def maximise(wide: Floats, objective: Floats) -> Floats:
    """The values of the column that an objective prefers among those in [0, 1].

    `wide` is the rows with a 1 at the end; so the last coordinate of the objective weighs the mean.
    Mehrotra's predictor and corrector, from the centre, where all values are 1/2. Distances to the
    two walls are `low` and `high`, their prices `below` and `above`.
    """
    goal = objective / np.linalg.norm(objective)
    low = np.full(len(wide), 0.5)
    high = low.copy()
    below = np.full(len(wide), 2.0 / len(wide))
    above = below.copy()
    reached = goal[-1] / 2
    for _ in range(STEPS):
        gap = below @ low + above @ high
        if gap < GAP * max(abs(reached), 1e-3):
            break
        missing = goal - wide.T @ (above - below)
        scaled = wide * np.sqrt(below / low + above / high)[:, None]
        matrix = scaled.T @ scaled
        matrix[np.diag_indices_from(matrix)] *= 1 + 1e-12
        try:
            factor = cho_factor(matrix, check_finite=False)
        except LinAlgError:  # the end of float64's precision: what is reached must do
            break

        def towards(for_low: Floats, for_high: Floats, missing: Floats = missing, factor: tuple[Floats, bool] = factor):
            move = cho_solve(factor, missing - wide.T @ (for_high / high - for_low / low), check_finite=False)
            up = wide @ move
            return move, up, (for_low - below * up) / low, (for_high + above * up) / high

        _, up, more_below, more_above = towards(-below * low, -above * high)
        primal, dual = _room(low, up, high, -up), _room(below, more_below, above, more_above)
        after = (below + dual * more_below) @ (low + primal * up) + (above + dual * more_above) @ (high - primal * up)
        centre = (after / gap) ** 3 * gap / (2 * len(wide))
        move, up, more_below, more_above = towards(
            centre - below * low - up * more_below, centre - above * high + up * more_above
        )
        primal = min(1.0, SHORT * _room(low, up, high, -up))
        dual = min(1.0, SHORT * _room(below, more_below, above, more_above))
        low, high = low + primal * up, high - primal * up
        below, above = below + dual * more_below, above + dual * more_above
        reached += primal * float(goal @ move)
    return low


def _room(first: Floats, change: Floats, second: Floats, other: Floats) -> float:
    """The largest step, up to 1, that keeps both positive."""
    worst = max((-change / first).max(), (-other / second).max())
    return 1.0 if worst <= 1 else float(1 / worst)
