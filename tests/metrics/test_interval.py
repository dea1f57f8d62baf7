"""Student's interval on numbers checked by hand."""

import pytest

from cutlayer.metrics.interval import mean_interval


def test_by_hand():
    """1, 2, 3: standard deviation 1, t(0.975, 2) = 4.3027, so 4.3027 / sqrt(3) = 2.4841 either way."""
    assert mean_interval([1, 2, 3]) == pytest.approx((2, 2 - 2.48414, 2 + 2.48414), abs=1e-4)


def test_one_value():
    assert mean_interval([0.7]) == (0.7, 0.7, 0.7)
