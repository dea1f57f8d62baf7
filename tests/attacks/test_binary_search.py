import numpy as np
import pytest
import torch

from cutlayer.attack import Form
from cutlayer.attacks import BinarySearch
from cutlayer.errors import ConfigError, Inapplicable
from tests.helpers.linear_view import linear_view
from tests.helpers.toy import FEATURE, OTHER, rng


def missing(view, bits, **settings) -> int:
    """How many of the given columns were not found, up to complement."""
    guess = BinarySearch(**settings).run(view, rng())
    assert guess.form is Form.COLUMNS and guess.values.dtype == torch.bool
    at = torch.stack([bits[row] for row in guess.rows.tolist()])
    columns = list(guess.values.T)
    return sum(not any(torch.equal(f, b) or torch.equal(~f, b) for f in columns) for b in at.T)


def test_each_partys_columns_are_found_with_and_without_a_bias():
    for bias in (False, True):
        view, features = linear_view(bias=bias)
        assert missing(view, features[FEATURE][:, :2] > 0.5) == 0


def test_the_sum_of_two_parties_gives_both_ones_columns():
    view, features = linear_view()
    both = torch.cat([features[FEATURE][:, :2], features[OTHER][:, :1]], dim=1) > 0.5
    assert missing(view, both, visible="sum") == 0


def test_own_columns_in_the_sum_are_appended_and_not_reported():
    view, features = linear_view()
    both = torch.cat([features[FEATURE][:, :2], features[OTHER][:, :1]], dim=1) > 0.5
    assert missing(view, both, visible="all") == 0
    assert BinarySearch(visible="all").run(view, rng()).values.shape[1] == 3


def test_an_activation_hides_them():
    view, _ = linear_view(activation=torch.tanh)
    assert BinarySearch(seconds=5).run(view, rng()).values.shape[1] == 0


def test_settings_are_checked():
    for settings in ({"visible": "none"}, {"seconds": -1}, {"method": "magic"}):
        with pytest.raises(ConfigError, match=next(iter(settings))):
            BinarySearch(**settings)


def test_messages_that_say_nothing_are_inapplicable():
    view, _ = linear_view(activation=lambda sent: sent * 0 + 1)
    with pytest.raises(Inapplicable, match="rank zero"):
        BinarySearch().run(view, rng())


def test_findings_have_no_order_of_chance():
    view, _ = linear_view()
    first, second = (BinarySearch().run(view, rng(seed)).values.numpy() for seed in (1, 2))
    assert np.array_equal(np.sort(first.sum(axis=0)), np.sort(second.sum(axis=0)))
