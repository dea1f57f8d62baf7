"""How near a reconstruction comes to the truth: one number per row. Take the mean yourself, or the worst row."""

from typing import cast

import numpy as np
import scipy
from numpy.typing import ArrayLike

from cutlayer._validate import positive
from cutlayer.errors import ConfigError
from cutlayer.metrics._arrays import Floats, alike

WINDOW, SIGMA, K1, K2 = 11, 1.5, 0.01, 0.03  # Wang et al. 2004
IMAGES = ("images, height, width", "images, channels, height, width")


def per_row_mse(truth: ArrayLike, guess: ArrayLike) -> Floats:
    """Mean squared error of each row, over all its other axes; their mean is `utility.mse`."""
    truth, guess = alike(truth, guess)
    return cast(Floats, np.mean(((truth - guess) ** 2).reshape(len(truth), -1), axis=1))


def psnr(truth: ArrayLike, guess: ArrayLike, range: float = 1.0) -> Floats:
    """Peak signal-to-noise ratio of each row in decibels; `inf` where a row is met exactly.

    `range` is the distance from the smallest to the largest value a pixel may have.
    """
    positive("range", range)
    error = per_row_mse(truth, guess)
    with np.errstate(divide="ignore"):
        return cast(Floats, 20 * np.log10(range) - 10 * np.log10(error))


def ssim(truth: ArrayLike, guess: ArrayLike, range: float = 1.0) -> Floats:
    """Structural similarity of each image (Wang et al. 2004), a mean over places and channels.

    An 11x11 Gaussian window of sigma 1.5 moves over all places where it fits into the image. On
    images with a side below 11 pixels the window shrinks to the largest odd size that fits, with
    the same sigma; such figures compare with each other, not with those of larger images. A
    window of one pixel sees no structure: what is left compares brightness.
    """
    positive("range", range)
    truth, guess = alike(truth, guess, IMAGES)
    radius = (min(WINDOW, *truth.shape[-2:]) - 1) // 2

    def local(values: Floats) -> Floats:
        blurred: Floats = scipy.ndimage.gaussian_filter(values, SIGMA, radius=radius, axes=(-2, -1))
        height, width = values.shape[-2:]
        return blurred[..., radius : height - radius, radius : width - radius]

    mean, guess_mean = local(truth), local(guess)
    spread, guess_spread = local(truth * truth) - mean * mean, local(guess * guess) - guess_mean * guess_mean
    shared = local(truth * guess) - mean * guess_mean
    c1, c2 = (K1 * range) ** 2, (K2 * range) ** 2
    above = (2 * mean * guess_mean + c1) * (2 * shared + c2)
    below = (mean * mean + guess_mean * guess_mean + c1) * (spread + guess_spread + c2)
    return cast(Floats, np.mean((above / below).reshape(len(truth), -1), axis=1))


def kld(truth: ArrayLike, guess: ArrayLike, floor: float = 1e-8, normalise: bool = False) -> Floats:
    """Sum over the pixels x of truth and x' of guess of x * log(x / x'), for each row, in nats.

    Pixels are clamped to [floor, 1] first: scale images to [0, 1] before. As HashVFL's figures
    must have been computed, pixels are not made a distribution, so the sum grows with the number
    of pixels and is negative for a guess brighter than the truth.

    `normalise=True` makes each row sum to 1 first: a true Kullback-Leibler divergence, zero or more.
    """
    if not 0 < floor < 1:
        raise ConfigError(f"Expected floor={floor} to lie between 0 and 1, both excluded.")
    true, guessed = (np.clip(side, floor, 1).reshape(len(side), -1) for side in alike(truth, guess))
    if not normalise:
        return cast(Floats, scipy.special.rel_entr(true, guessed).sum(axis=1))
    true, guessed = true / true.sum(axis=1, keepdims=True), guessed / guessed.sum(axis=1, keepdims=True)
    return cast(Floats, np.maximum(scipy.special.rel_entr(true, guessed).sum(axis=1), 0))  # rounding may give -1e-17
