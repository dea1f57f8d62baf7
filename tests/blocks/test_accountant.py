"""The accountant against integrals, against sums over the grid, and against itself."""

from math import exp, inf, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import norm

from cutlayer.blocks.accountant import (
    gaussian_delta,
    gaussian_epsilon,
    gaussian_noise,
    grid_slack,
    released_epsilon,
    renyi_epsilon,
)


@pytest.mark.parametrize(("mu", "epsilon"), [(0.5, 0.3), (1.0, 1.0), (2.0, 3.0), (4.0, 9.0)])
def test_delta_is_the_hockey_stick_between_two_normals(mu, epsilon):
    integral, _ = quad(lambda x: max(0.0, norm.pdf(x, mu) - exp(epsilon) * norm.pdf(x)), -30, 40, limit=500)
    assert gaussian_delta(mu, epsilon) == pytest.approx(integral, abs=1e-8)


def test_the_calibration_of_the_specification():
    """Clip 1, noise 3.3, two messages up to 2 apart: 9.5 after 10 releases, 19 after 30."""
    assert gaussian_epsilon(2 * sqrt(10) / 3.3, 1e-5) == pytest.approx(9.487, abs=0.001)
    assert gaussian_epsilon(2 * sqrt(30) / 3.3, 1e-5) == pytest.approx(19.03, abs=0.01)


@given(st.floats(0.05, 50), st.sampled_from([1e-7, 1e-5, 1e-2]), st.integers(1, 1000), st.floats(0.5, 2))
def test_noise_and_epsilon_are_inverse(epsilon, delta, releases, sensitivity):
    noise = gaussian_noise(epsilon, delta, releases, sensitivity)
    assert gaussian_epsilon(sensitivity * sqrt(releases) / noise, delta) == pytest.approx(epsilon, rel=1e-6)


@pytest.mark.parametrize("mu", [1e-6, 1e-3, 30.0, 1000.0])
def test_extremes_are_finite(mu):
    assert 0 <= gaussian_epsilon(mu, 1e-5) < inf


def test_no_noise_is_no_privacy():
    assert gaussian_epsilon(inf, 1e-5) == inf
    assert released_epsilon(0.0, 1.0, 5, 1e-5) == inf and renyi_epsilon(inf, 1e-5) == inf
    assert gaussian_epsilon(0.0, 1e-5) == pytest.approx(0)


def discrete_delta(shift, steps, epsilon):
    """The hockey stick between discrete Gaussians of `steps`, a whole number of steps apart, summed exactly."""
    x = np.arange(-12 * int(steps), 12 * int(steps) + shift + 1, dtype=np.float64)
    total = np.exp(-(x**2) / (2 * steps**2)).sum()
    p, q = (np.exp(-((x - centre) ** 2) / (2 * steps**2)) / total for centre in (shift, 0))
    return float(np.maximum(0.0, p - exp(epsilon) * q).sum())


@pytest.mark.parametrize("steps", [2.0, 20.0, 300.0, 131_076.0])
@pytest.mark.parametrize("mu", [0.5, 1.0, 3.0])
def test_discrete_noise_has_the_delta_of_continuous_noise_up_to_the_slack(mu, steps):
    shift = round(mu * steps)
    for epsilon in (0.1, 1.0, 4.0):
        apart = abs(discrete_delta(shift, steps, epsilon) - gaussian_delta(shift / steps, epsilon))
        assert apart <= grid_slack(shift / steps, 1, steps) + 1e-12  # 1e-12: sums of a million floats


@pytest.mark.parametrize("steps", [2.0, 20.0, 300.0])
def test_the_renyi_bound_holds_for_discrete_noise(steps):
    for mu in (0.5, 1.0, 3.0):
        shift = round(mu * steps)
        assert discrete_delta(shift, steps, renyi_epsilon(shift / steps, 1e-5)) <= 1e-5


@given(st.floats(0.01, 20), st.sampled_from([1e-7, 1e-5, 1e-2]))
def test_the_renyi_bound_is_above_the_exact_epsilon_and_near(mu, delta):
    exact = gaussian_epsilon(mu, delta)
    assert exact - 1e-9 <= renyi_epsilon(mu, delta) <= 1.3 * exact + 0.05


def test_rounding_and_the_grid_cost_little_and_are_never_left_out():
    plain, counted = (released_epsilon(3.3, sqrt(2), 30, 1e-5, entries) for entries in (0, 10))
    assert plain < counted < 1.001 * plain
    assert released_epsilon(3.3, 1.0, 30, 1e-5, None) == renyi_epsilon(sqrt(30) / 3.3, 1e-5)
