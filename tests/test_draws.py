"""Draws: their distributions, the cipher beneath, and that they repeat."""

import copy
import math

import numpy as np
import pytest
import torch
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from scipy import stats
from torch import nn

from cutlayer.draws import CELLS, DEVIATION, KEY, LOW, STEPS, Draws, _table, _weights
from cutlayer.rng import first_weights

MANY = 200_000


def test_the_stream_is_aes_in_counter_mode():
    draws = Draws(7, "a")
    key = draws.state.numpy().tobytes()[:KEY]
    cipher = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()
    expected = cipher.update(bytes(96))
    assert draws.bytes(20) == expected[:20]  # the rest of the second block is thrown away
    assert draws.bytes(64) == expected[32:96]


def test_seeds_and_names_give_other_streams():
    ways = [Draws(0), Draws(1), Draws(0, "a"), Draws(0, "b"), Draws(0, "a", 1), Draws(2**300), Draws(2**300 + 1)]
    assert len({draws.bytes(16) for draws in ways}) == len(ways)
    assert Draws(5, "a").bytes(99) == Draws(5, "a").bytes(99)


def test_a_state_goes_on_where_it_was_taken():
    draws = Draws(3)
    draws.normal((5,))
    copied, kept = copy.deepcopy(draws), Draws(4)
    kept.state = draws.state.clone()
    expected = draws.discrete_normal((50,))
    assert torch.equal(copied.discrete_normal((50,)), expected) and torch.equal(kept.discrete_normal((50,)), expected)


def test_a_child_is_keyed_by_numbers_that_are_not_given_out_again():
    draws, other = Draws(3), Draws(3)
    child, key = draws.child(), other.bytes(KEY)
    assert child.state.numpy().tobytes()[:KEY] == key and draws.bytes(16) == other.bytes(16)
    assert draws.child().bytes(16) != child.bytes(16)


def test_a_stream_does_not_print_its_key():
    assert repr(Draws(3)) == "Draws(at block 0)"


@pytest.mark.parametrize(
    ("name", "law"),
    [("uniform", stats.uniform), ("normal", stats.norm), ("exponential", stats.expon), ("laplace", stats.laplace)],
)
def test_continuous_laws(name, law):
    sample = getattr(Draws(1, name), name)((MANY,))
    assert sample.dtype == torch.float64 and bool(sample.isfinite().all())
    assert stats.kstest(sample.numpy(), law.cdf).pvalue > 0.001


def test_uniform_stays_below_one_and_normal_is_symmetric_at_its_ends():
    low, high = 0.0, 1 - 2.0**-53
    ends = torch.erfinv(2 * torch.tensor([low, high], dtype=torch.float64) - (1 - 2.0**-53))
    assert bool(ends.isfinite().all()) and float(ends.sum()) == 0.0


def test_integers_and_permutations_are_even():
    counts = torch.bincount(Draws(2).integers(7, (MANY,)), minlength=7)
    assert len(counts) == 7 and stats.chisquare(counts.numpy()).pvalue > 0.001
    places = [Draws(2, i).permutation(4).tolist() for i in range(2400)]
    assert all(sorted(place) == [0, 1, 2, 3] for place in places)
    orders = np.unique([int("".join(map(str, place))) for place in places], return_counts=True)[1]
    assert len(orders) == 24 and stats.chisquare(orders).pvalue > 0.001


def test_the_table_holds_the_discrete_gaussian():
    """Probabilities against their formula, and what each cell gives away against the probabilities."""
    weights = _weights()
    reach = len(weights) // 2
    assert sum(weights) == 1 << 64 and weights == weights[::-1] and len(weights) <= CELLS
    numbers = np.arange(-reach, reach + 1)
    exact = np.exp(-(numbers**2) / (2 * DEVIATION**2))
    exact /= exact.sum()
    np.testing.assert_allclose(np.array(weights, float) / 2.0**64, exact, rtol=1e-12, atol=2.0**-49)
    thresholds, values, aliases = _table()
    given = dict.fromkeys(numbers.tolist(), 0)
    for threshold, value, alias in zip(thresholds.tolist(), values.tolist(), aliases.tolist(), strict=True):
        given[value] += threshold
        given[alias] += (1 << LOW) - threshold
    assert [given[number] for number in numbers.tolist()] == weights  # to the last unit of 2^-64


def test_discrete_normal():
    assert math.sqrt(128**2 + 1) * 1024 == STEPS
    sample = Draws(1).discrete_normal((MANY,))
    assert sample.dtype == torch.int64
    assert (
        stats.kstest((sample.numpy() + Draws(2).uniform((MANY,)).numpy() - 0.5) / STEPS, stats.norm.cdf).pvalue > 0.001
    )
    low = torch.bincount(sample % 128, minlength=128).numpy()  # no residue is missed: the fine part fills the coarse
    assert stats.chisquare(low).pvalue > 0.001


def layers():
    return nn.Sequential(nn.Conv2d(1, 2, 3), nn.Linear(8, 4), nn.Embedding(3, 2), nn.LSTM(4, 4))


def test_first_weights_come_from_the_stream_and_not_from_torch():
    """As wide as torch's own, the same with any global seed, and the global generator stays where it was."""
    before = torch.get_rng_state()
    with first_weights(Draws(1)):
        first = layers().state_dict()
    assert torch.equal(before, torch.get_rng_state())
    torch.manual_seed(99)
    with first_weights(Draws(1)):
        again = layers().state_dict()
    with first_weights(Draws(2)):
        other = layers().state_dict()
    usual = layers().state_dict()
    for name, weight in first.items():
        assert torch.equal(weight, again[name]) and not torch.equal(weight, other[name])
        assert float(weight.abs().max()) <= 1.01 * max(float(usual[name].abs().max()) * 2, 1e-9)
    with first_weights(Draws(3)):
        wide = nn.Linear(100, 400).weight.detach()
    assert stats.kstest(wide.flatten().numpy(), stats.uniform(-0.1, 0.2).cdf).pvalue > 0.001
