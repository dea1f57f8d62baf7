"""How sure a mean is."""

import numpy as np
import scipy
from numpy.typing import ArrayLike


def mean_interval(values: ArrayLike) -> tuple[float, float, float]:
    """Mean and its 95% interval by Student's t; a single value has no spread to speak of, so no width."""
    array = np.asarray(values, dtype=np.float64)
    mean = float(array.mean())
    if len(array) < 2:
        return mean, mean, mean
    margin = float(scipy.stats.t.ppf(0.975, len(array) - 1) * array.std(ddof=1) / len(array) ** 0.5)
    return mean, mean - margin, mean + margin
