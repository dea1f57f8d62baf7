"""When to stop: by hand, with ties and with values that are not numbers."""

from math import inf, nan

import pytest

from cutlayer.blocks.patience import since_best


@pytest.mark.parametrize(
    ("errors", "since"),
    [([3.0], 0), ([3.0, 2.0], 0), ([3.0, 2.0, 2.0], 1), ([1.0, 2.0, 3.0], 2), ([nan], 1), ([nan, 1.0, nan], 1)],
)
def test_errors_after_the_best(errors, since):
    assert since_best(errors) == since


def test_without_errors_nothing_was_waited_for():
    assert since_best([]) == 0
    assert since_best([inf]) == 1  # no better than nothing
