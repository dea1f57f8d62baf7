"""Distance correlation as it is defined, by sums over pairs: the reference for code that centres matrices instead."""

from math import sqrt
from typing import Any

import numpy as np


def _distances(table: Any) -> Any:
    return np.array(
        [[sqrt(sum((a - b) ** 2 for a, b in zip(first, second, strict=True))) for second in table] for first in table]
    )


def distance_correlation(first: Any, second: Any) -> float:
    """Székely, Rizzo and Bakirov (2007), Remark 1: the covariance is S1 + S2 - 2 S3."""

    def covariance(a: Any, b: Any) -> float:
        return float((a * b).mean() + a.mean() * b.mean() - 2 * (a.mean(axis=1) * b.mean(axis=1)).mean())

    return _correlation(first, second, covariance, root=True)


def unbiased_distance_correlation(first: Any, second: Any) -> float:
    """Székely and Rizzo (2014), Proposition 1: the squared correlation by the unbiased covariance."""

    def covariance(a: Any, b: Any) -> float:
        n = len(a)
        rows = (a.sum(axis=1) * b.sum(axis=1)).sum()
        return float(((a * b).sum() - 2 / (n - 2) * rows + a.sum() * b.sum() / (n - 1) / (n - 2)) / n / (n - 3))

    return _correlation(first, second, covariance, root=False)


def _correlation(first: Any, second: Any, covariance: Any, root: bool) -> float:
    a, b = _distances(first), _distances(second)
    size = covariance(a, a) * covariance(b, b)
    ratio = covariance(a, b) / sqrt(size) if size > 0 else 0.0
    return sqrt(max(ratio, 0.0)) if root else ratio
