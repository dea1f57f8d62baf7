"""Distances between images, against numbers checked by hand and against scikit-image."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import entropy
from skimage import metrics as reference

from cutlayer.errors import ConfigError, DataError
from cutlayer.metrics import utility
from cutlayer.metrics.images import kld, per_row_mse, psnr, ssim

seeds = st.integers(0, 2**32 - 1)
METRICS = [per_row_mse, psnr, ssim, kld]


def pictures(seed, *shape):
    """Two sets of images, the second half-way from the first to noise."""
    rng = np.random.default_rng(seed)
    truth = rng.uniform(size=shape)
    return truth, (truth + rng.uniform(size=shape)) / 2


def test_mse_of_each_row_by_hand():
    """Row 0 is off by 1 and 3, row 1 by nothing: 10 / 2 and 0."""
    assert per_row_mse([[1, 2], [5, 5]], [[2, 5], [5, 5]]).tolist() == [5, 0]


def test_bytes_do_not_wrap_around():
    dark, bright = np.zeros((1, 2), np.uint8), np.full((1, 2), 255, np.uint8)
    assert per_row_mse(dark, bright).tolist() == [255**2]


@given(seeds)
def test_the_mean_over_rows_is_the_mse(seed):
    truth, guess = pictures(seed, 5, 3, 4, 2)
    assert per_row_mse(truth, guess).mean() == pytest.approx(utility.mse(truth, guess))


def test_psnr_by_hand():
    """An error of 0.1 at every pixel is a hundredth of the peak's power: 20 dB; a tenfold range adds 20."""
    truth, guess = np.full((1, 2, 2), 0.5), np.full((1, 2, 2), 0.6)
    assert psnr(truth, guess) == pytest.approx(20)
    assert psnr(truth, guess, range=10) == pytest.approx(40)


def test_psnr_of_an_exact_row_is_infinite():
    values = psnr([[0.0, 1.0], [0.0, 1.0]], [[0.0, 1.0], [1.0, 1.0]])
    assert values[0] == np.inf and values[1] == pytest.approx(10 * np.log10(2))


@given(seeds, st.sampled_from([0.5, 1.0, 255.0]))
def test_psnr_against_scikit_image(seed, peak):
    truth, guess = pictures(seed, 3, 8, 5)
    expected = [reference.peak_signal_noise_ratio(t, g, data_range=peak) for t, g in zip(truth, guess, strict=True)]
    assert psnr(truth, guess, range=peak) == pytest.approx(expected)


def test_ssim_of_flat_images_by_hand():
    """No variance: only brightness is compared, (2 * 0.2 * 0.4 + 0.0001) / (0.04 + 0.16 + 0.0001)."""
    truth, guess = np.full((2, 12, 12), 0.2), np.full((2, 12, 12), 0.4)
    assert ssim(truth, guess) == pytest.approx([0.1601 / 0.2001] * 2)


def test_ssim_with_a_window_of_three_by_hand():
    """One place: a bright pixel in the middle of the truth, a dark one in that of the guess.

    The middle weighs w. Means w and 1 - w, both variances w(1 - w), covariance -w(1 - w).
    """
    truth = np.zeros((1, 3, 3))
    truth[0, 1, 1] = 1
    w = 1 / (1 + 2 * np.exp(-1 / 4.5)) ** 2
    v = w * (1 - w)
    expected = (2 * v + 1e-4) * (-2 * v + 9e-4) / ((w**2 + (1 - w) ** 2 + 1e-4) * (2 * v + 9e-4))
    assert ssim(truth, 1 - truth) == pytest.approx([expected])


def test_ssim_with_a_window_of_one_compares_brightness():
    values = ssim([[[0.2, 1.0]]], [[[0.4, 1.0]]])
    assert values == pytest.approx([(0.1601 / 0.2001 + 1) / 2])


@given(seeds, st.integers(11, 20), st.integers(11, 20), st.sampled_from([1.0, 255.0]))
def test_ssim_against_scikit_image(seed, height, width, peak):
    truth, guess = pictures(seed, 3, height, width)
    options = {"gaussian_weights": True, "sigma": 1.5, "use_sample_covariance": False, "data_range": peak}
    truth, guess = truth * peak, guess * peak
    expected = [reference.structural_similarity(t, g, **options) for t, g in zip(truth, guess, strict=True)]
    assert ssim(truth, guess, range=peak) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("shape", [(1, 28, 14), (3, 32, 16), (3, 48, 24)])
def test_ssim_of_colour_against_scikit_image(shape):
    truth, guess = pictures(0, 4, *shape)
    options = {"gaussian_weights": True, "sigma": 1.5, "use_sample_covariance": False, "data_range": 1}
    pairs = zip(truth, guess, strict=True)
    expected = [reference.structural_similarity(t, g, channel_axis=0, **options) for t, g in pairs]
    assert ssim(truth, guess) == pytest.approx(expected, abs=1e-9)


@given(seeds, st.integers(1, 14), st.integers(1, 14))
def test_ssim_is_a_symmetric_likeness(seed, height, width):
    truth, guess = pictures(seed, 2, height, width)
    assert ssim(truth, truth).tolist() == [1, 1]
    assert ssim(truth, guess) == pytest.approx(ssim(guess, truth))
    assert np.all(np.abs(ssim(truth, 1 - guess)) <= 1 + 1e-12)


def test_kld_by_hand():
    """0.5 log(0.5 / 0.25) + 1 log(1 / 0.5) = 1.5 log 2; the other way round 0.25 log 0.5 + 0.5 log 0.5."""
    truth, guess = [[0.5, 1.0]], [[0.25, 0.5]]
    assert kld(truth, guess) == pytest.approx(1.5 * np.log(2))
    assert kld(guess, truth) == pytest.approx(-0.75 * np.log(2))
    assert kld(truth, guess, normalise=True) == pytest.approx(0)


def test_kld_clamps_to_the_floor_and_to_one():
    """A black guess for a white pixel costs log(1 / floor); pixels above 1 count as 1, below 0 as the floor."""
    assert kld([[1.0]], [[0.0]]) == pytest.approx(8 * np.log(10))
    assert kld([[7.0, -1.0]], [[0.0, 0.0]], floor=0.1) == pytest.approx(np.log(10))


def test_kld_grows_with_the_pixels_but_not_when_normalised():
    truth, guess = pictures(0, 2, 3, 4)
    tall = np.concatenate([truth, truth], axis=1), np.concatenate([guess, guess], axis=1)
    assert kld(*tall) == pytest.approx(2 * kld(truth, guess))
    assert kld(*tall, normalise=True) == pytest.approx(kld(truth, guess, normalise=True))


@given(seeds)
def test_kld_against_scipy(seed):
    truth, guess = pictures(seed, 4, 30)
    assert kld(truth, guess, normalise=True) == pytest.approx(entropy(truth, guess, axis=1), rel=1e-6)
    assert np.all(kld(truth, guess, normalise=True) >= 0) and kld(truth, truth, normalise=True).tolist() == [0] * 4
    assert kld(truth, truth).tolist() == [0] * 4


@pytest.mark.parametrize("metric", METRICS)
def test_arrays_that_cannot_be_compared_are_refused(metric):
    image = np.full((2, 3, 4), 0.5)
    with pytest.raises(DataError, match=r"one shape, got \(2, 3, 4\) and \(2, 4, 3\)"):
        metric(image, image.reshape(2, 4, 3))
    for bad in (np.nan, np.inf):
        with pytest.raises(DataError, match="guess to hold finite numbers only, got 24"):
            metric(image, image * bad)
    with pytest.raises(DataError, match="at least one number"):
        metric(np.zeros((0, 3, 4)), np.zeros((0, 3, 4)))
    with pytest.raises(DataError, match="got dtype <U1"):
        metric([[["a"]]], [[["b"]]])
    with pytest.raises(DataError, match="array of numbers"):
        metric([[1.0, 2.0], [3.0]], image)
    with pytest.raises(DataError, match="of shape"):
        metric(0.5, 0.5)


def test_images_have_a_height_and_a_width():
    with pytest.raises(DataError, match=r"\(images, height, width\) or \(images, channels, height, width\), got"):
        ssim(np.zeros((5, 4)), np.zeros((5, 4)))


@pytest.mark.parametrize("metric", [psnr, ssim])
def test_a_range_is_positive(metric):
    with pytest.raises(ConfigError, match="range=0 to be a finite number > 0"):
        metric(np.zeros((1, 3, 3)), np.zeros((1, 3, 3)), range=0)


@pytest.mark.parametrize("floor", [0, 1, np.nan])
def test_a_floor_lies_between_zero_and_one(floor):
    with pytest.raises(ConfigError, match="floor"):
        kld([[1.0]], [[1.0]], floor=floor)


@pytest.mark.parametrize("metric", METRICS)
def test_inputs_stay_as_they_were(metric):
    truth, guess = pictures(0, 2, 12, 12)
    before = truth.copy(), guess.copy()
    values = metric(truth, guess)
    assert values.shape == (2,) and values.dtype == np.float64
    assert np.array_equal(truth, before[0]) and np.array_equal(guess, before[1])
