"""How much a guess depends on the truth: correlation of columns, and distance correlation, which sees any shape."""

from typing import cast

import numpy as np
import scipy
from numpy.typing import ArrayLike

from cutlayer.metrics._arrays import Floats, alike, numbers, samples
from cutlayer.metrics.images import IMAGES

FLAT = 1e-24  # a share of the squared distance that is rounding, not variance


def column_correlation(truth: ArrayLike, guess: ArrayLike) -> Floats:
    """Pearson correlation of each column of truth with the same column of guess; 0 where either is constant."""
    truth, guess = alike(*samples(("truth", "guess"), truth, guess, least=2))
    return cast(Floats, np.clip(np.sum(_unit(truth) * _unit(guess), axis=0), -1, 1))


def correlation_matrix(truth: ArrayLike, guess: ArrayLike) -> Floats:
    """Pearson correlation of each column of truth (down) with each of guess (across); 0 where either is constant."""
    truth, guess = samples(("truth", "guess"), truth, guess, least=2)
    return cast(Floats, np.clip(_unit(truth).T @ _unit(guess), -1, 1))


def distance_correlation(x: ArrayLike, y: ArrayLike, unbiased: bool = False) -> float:
    """Distance correlation of two tables about the same rows (Székely et al. 2007): any dependence, not only lines.

    Biased (the default): the V-statistic, not squared, in [0, 1]. It is 0 only in the limit of
    many rows: with few rows and many columns independent noise scores high, see `noise_control`.

    `unbiased=True`: the bias-corrected **squared** distance correlation, a U-statistic in
    [-1, 1] that is about 0 on average for independent tables, hence often negative; at least 4
    rows. The two are on different scales: compare it with the square of the biased one.

    A table whose rows are all alike scores 0. Memory: two float64 matrices of rows x rows,
    1.6 GB for 10,000 rows; give it a random sample of more.
    """
    x, y = samples(("x", "y"), x, y, least=4 if unbiased else 2)
    return _distance_correlation(x, y, unbiased)


def image_distance_correlation(truth: ArrayLike, guess: ArrayLike, unbiased: bool = False) -> Floats:
    """Distance correlation inside each pair of images, whose pixel rows are the observations (HashVFL, Table IV).

    An image of (channels, height, width) is `height` observations of channels x width numbers.
    Biased figures mean nothing without `noise_control` beside them.
    """
    true, guessed = (_pixel_rows(side) for side in alike(truth, guess, IMAGES))
    samples(("truth", "guess"), true[0], guessed[0], least=4 if unbiased else 2)
    return np.array([_distance_correlation(x, y, unbiased) for x, y in zip(true, guessed, strict=True)])


def noise_control(truth: ArrayLike, rng: np.random.Generator, unbiased: bool = False) -> Floats:
    """`image_distance_correlation` of each image with uniform noise, which knows nothing of it.

    A floor of the scale, far above 0: the biased estimator gives about 0.81 for noise against noise at
    28x14, 32x16 and 48x24 pixels, 0.93 with three channels, and 0.54 to 0.63 for photographs and
    digits against noise. Images that have nothing to do with each other score higher still,
    because pixel rows depend on their neighbours: shuffle the guesses for that second floor.
    """
    truth = numbers("truth", truth, IMAGES)
    return image_distance_correlation(truth, rng.uniform(size=truth.shape), unbiased)


def _unit(table: Floats) -> Floats:
    """Columns of mean 0 and length 1; zeros where constant, which the mean's rounding would hide."""
    constant = table.max(axis=0) == table.min(axis=0)
    centred = np.where(constant, 0, table - table.mean(axis=0))
    centred /= np.where(constant, 1, np.abs(centred).max(axis=0))  # so that no square vanishes
    return centred / np.where(constant, 1, np.linalg.norm(centred, axis=0))


def _pixel_rows(images: Floats) -> Floats:
    """(images, height, channels x width)."""
    if images.ndim == 4:
        images = images.transpose(0, 2, 1, 3)
    return images.reshape(*images.shape[:2], -1)


def _distance_correlation(x: Floats, y: Floats, unbiased: bool) -> float:
    first, second = _centred_distances(x, unbiased), _centred_distances(y, unbiased)
    if first is None or second is None:
        return 0.0
    ratio = float(np.vdot(first, second) / (np.linalg.norm(first) * np.linalg.norm(second)))
    return min(max(ratio, -1.0), 1.0) if unbiased else min(max(ratio, 0.0), 1.0) ** 0.5


def _centred_distances(table: Floats, unbiased: bool) -> Floats | None:
    """Distances between rows less the means of row and column; None where nothing is left.

    Unbiased: U-centred, that is with n - 2 and (n - 1)(n - 2) for n and n * n, and no diagonal.
    """
    distances: Floats = scipy.spatial.distance.cdist(table, table)
    rows = len(distances)
    squares = np.vdot(distances, distances)
    sums = distances.sum(axis=0)
    less = 2 if unbiased else 0
    distances -= sums[:, None] / (rows - less)
    distances -= sums[None, :] / (rows - less)
    distances += sums.sum() / ((rows - less) * (rows - less // 2))
    if unbiased:
        np.fill_diagonal(distances, 0)
    return distances if np.vdot(distances, distances) > FLAT * squares else None
