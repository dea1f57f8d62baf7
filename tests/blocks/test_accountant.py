"""The accountant against integrals, against itself, and against Opacus's."""

from math import exp, inf, sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import norm

from cutlayer.blocks.accountant import gaussian_delta, gaussian_epsilon, gaussian_noise, sampled_epsilon


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
    assert gaussian_epsilon(inf, 1e-5) == inf and sampled_epsilon(0.0, 0.1, 5, 1e-5) == inf
    assert gaussian_epsilon(0.0, 1e-5) == pytest.approx(0)


@pytest.mark.parametrize(("noise", "rate", "steps"), [(1.0, 0.01, 1000), (3.3, 0.1, 300), (0.7, 0.02, 500)])
def test_with_subsampling_it_agrees_with_opacus(noise, rate, steps):
    from opacus.accountants import RDPAccountant

    theirs = RDPAccountant()
    theirs.history = [(noise, rate, steps)]
    assert sampled_epsilon(noise, rate, steps, 1e-5) == pytest.approx(theirs.get_epsilon(1e-5), rel=0.005)


def test_subsampling_gives_credit_and_whole_batches_none():
    assert sampled_epsilon(2.0, 0.05, 200, 1e-5) < gaussian_epsilon(sqrt(10) / 2.0, 1e-5)
    assert sampled_epsilon(2.0, 1.0, 10, 1e-5) == gaussian_epsilon(sqrt(10) / 2.0, 1e-5)
