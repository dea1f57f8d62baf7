"""Polish: from a direction that leans towards a two-valued column to the column itself, and the test that it is one.

All works on whitened rows: mean zero, covariance the identity. There a direction w of unit length
gives a column y of unit variance, and a two-valued one satisfies y^2 - g y - 1 = 0 in every row,
with g its skewness. So the two levels are known from g alone, and their midpoint is g / 2.

Specification: binary-search, section 2.
"""

from collections.abc import Iterator
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from cutlayer.attacks.tools.binary.span import Real

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Bits = NDArray[np.bool_]

BLOCK = 1_024
Rule = Literal["skewness", "cut", "relation"]
RULES: tuple[Rule, ...] = ("skewness", "cut", "relation")
STEPS: dict[Rule, int] = {"skewness": 15, "cut": 5, "relation": 20}


def levels(skewness: float) -> tuple[float, float]:
    """The two values of a two-valued column of mean zero and unit variance, lower first."""
    root = (skewness**2 + 4) ** 0.5
    return (skewness - root) / 2, (skewness + root) / 2


def unit(directions: NDArray[Real]) -> NDArray[Real]:
    """Columns of length one; a column of zeros stays."""
    lengths = np.linalg.norm(directions, axis=0)
    return np.asarray(directions / np.where(lengths > 0, lengths, 1).astype(directions.dtype))


def weights(points: Singles) -> Singles:
    """How much a row counts: less where it lies far out, for there fourth moments are decided by few rows."""
    size = (points * points).mean(axis=1)
    weight = 1 / (size * size + np.float32(0.25))
    return weight / weight.sum()  # type: ignore[no-any-return]


def climb(points: Singles, directions: Singles, rule: Rule) -> Singles:
    """Lead directions towards two-valued columns, each on its own.

    "skewness": the one-unit step of independent component analysis, for values rarer than one in ten.
    "cut": a column is replaced by the best fit to [y > 1], for values of one in ten to one in three.
    "relation": steps down the weighted mean of (y^2 - g y - 1)^2, for values nearer to halves. They
    reach a column from a third of its length, at rank 200 and 10,000 rows, where falling kurtosis
    leads astray (to uniform columns) even from a half, and unweighted steps to heavy tails.
    """
    weight = weights(points)[:, None]
    skewness = np.zeros(directions.shape[1], np.float32)
    for _ in range(STEPS[rule]):
        directions = unit(directions)
        total, third = np.zeros_like(directions), np.zeros_like(skewness)
        for start in range(0, len(points), BLOCK):
            part, counts = points[start : start + BLOCK], weight[start : start + BLOCK]
            values = part @ directions
            if rule == "skewness":
                total += part.T @ np.square(values)
            elif rule == "cut":
                total += part.T @ (values > 1).astype(np.float32)
            else:
                error = np.square(values) - skewness * values - 1
                third += (counts * np.square(values) * values).sum(axis=0)
                total += part.T @ (counts * error * (2 * values - skewness))
        if rule == "relation":  # across, not along, the direction
            total = directions - (total - directions * (total * directions).sum(axis=0)) / 2
        directions, skewness = total, third
    return unit(directions)


def lloyd(points: NDArray[Real], directions: NDArray[Real]) -> tuple[NDArray[Real], Floats]:
    """One step: cut each column at the midpoint of its levels, take the best fit to the bits, and its R^2.

    Two-means of a column, with the threshold from the third moment. R^2 is of the bits by the span.
    """
    directions = unit(directions)
    skewness, count = np.zeros(directions.shape[1]), np.zeros(directions.shape[1])
    fitted = np.zeros_like(directions)
    for part in _blocks(points):
        values = part @ directions
        skewness += (np.square(values) * values).sum(axis=0)
    middle = (skewness / (2 * len(points))).astype(points.dtype)
    for part in _blocks(points):
        bits = (part @ directions > middle).astype(points.dtype)
        count += bits.sum(axis=0)
        fitted += part.T @ bits
    share = count / len(points)
    fitted /= points.dtype.type(len(points))
    spread = share * (1 - share)
    return fitted, (fitted.astype(np.float64) ** 2).sum(axis=0) / np.where(spread > 0, spread, np.inf)


def _blocks(points: NDArray[Real]) -> Iterator[NDArray[Real]]:
    """Some rows at a time, so that what is computed from them stays in the processor's cache."""
    for start in range(0, len(points), BLOCK):
        yield points[start : start + BLOCK]


def polish(points: Singles, directions: Singles, keep: int = 60) -> tuple[Singles, Floats]:
    """Lloyd steps on many starts, dropping the worst twice: 5 steps, the best third, 12, the best `keep`, up to 30.

    Returns the directions, the best first, and the R^2 of each.
    """
    explained: Floats = np.zeros(directions.shape[1])
    for steps, most in ((5, max(keep, directions.shape[1] * 3 // 10)), (12, keep), (30, keep)):
        for _ in range(steps):
            before = explained
            directions, explained = lloyd(points, directions)
            if np.abs(explained - before).max(initial=0) < 1e-7:
                break
        best = np.argsort(-explained, kind="stable")[:most]
        directions, explained = directions[:, best], explained[best]
    return unit(directions), explained
