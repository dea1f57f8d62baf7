from math import e

import pytest

from cutlayer.metrics.divergence import divergence


def test_it_says_from_when_on_and_how_far():
    text = divergence([2.1, 2.4, 30.0, 8.1e9, 7e8], classes=10)
    assert text == (
        "Training diverged from epoch 2 on: the loss rose to 8.1e+09, where knowing nothing costs 2.3; "
        "an attack that fails on this model says nothing about protection."
    )


@pytest.mark.parametrize("losses", [[], [0.1], [2.3, 22.0], [1e9, 0.5], [0.5, 1e9, 0.5]])
def test_what_learns_or_recovers_is_none(losses):
    assert divergence(losses, classes=10) is None


def test_ten_times_what_knowing_nothing_costs():
    """log(2) for two classes; the variance of a standardised target, 1, without any."""
    assert divergence([6.9], classes=2) is None and "from epoch 0 on" in divergence([7.0], classes=2)
    assert divergence([10.0], classes=0) is None and "costs 1;" in divergence([10 + 1 / e], classes=0)
