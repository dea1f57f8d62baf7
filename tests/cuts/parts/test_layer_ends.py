"""The two ends of an encrypted layer, one step by hand."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from cutlayer.crypto import Paillier, Ring
from cutlayer.cuts.parts.layer_ends import NoiseEnd, Terms, WeightsEnd, _digits
from cutlayer.cuts.parts.memory import Memory
from cutlayer.cuts.parts.stretch import stretch
from cutlayer.errors import DataError, ProtocolError
from cutlayer.rng import generator

ROWS, INPUTS, WIDTH, LR = 5, 4, 3, 0.5


def make_ends(bits=40, width=WIDTH, noise=True):
    """W = 0.1, 0.2, ... behind noise as large as training would make it."""
    ring = Ring(bits, 0)
    scheme, terms = Paillier(ring, 512, for_tests=True), Terms(ring, INPUTS, width, LR)
    weights = torch.arange(1, INPUTS * width + 1).double().view(INPUTS, width) / 10
    hidden = ring.uniform((INPUTS, width)) if noise else np.zeros((INPUTS, width), np.int64)
    feature = NoiseEnd(scheme, terms, seed=1)
    label = WeightsEnd(scheme.read_key(feature.secret.public.to_bytes()), terms, seed=2)
    feature.noise, label.weights = hidden, ring.subtract(ring.encode(weights, terms.places.weights), hidden)
    return feature, label, weights


def numbers(*shape, size=1.0):
    return size * torch.randn(*shape, generator=generator(0, "ends"), dtype=torch.float64)


def back_and_forth(feature, label, alpha, delta, early=False):
    """One batch: alpha W, delta W^T and the next W; `early` adds the noise to N before [N] is sent."""
    opened = label.open(feature.complete(label.forward(feature.forward(alpha), len(alpha)), alpha, 7))
    product = label.weights_gradient(feature.operand(alpha), delta)
    share, noise = feature.disturb(product, len(alpha), 7)
    following = label.stepped(share, len(alpha))
    if early:
        feature.noise = noise
    gradient = feature.gradient(label.gradient(feature.encrypted_noise(len(alpha)), delta, 7), len(alpha))
    weights = label.ring.decode(label.ring.add(following, noise), label.terms.places.weights)
    return opened, gradient, torch.from_numpy(weights)


@pytest.mark.parametrize("bits", [40, 48])
def test_one_step_equals_the_formulas(bits):
    feature, label, weights = make_ends(bits)
    alpha, delta = numbers(ROWS, INPUTS), numbers(ROWS, WIDTH, size=0.2)
    opened, gradient, following = back_and_forth(feature, label, alpha, delta)
    near = {40: 1e-3, 48: 1e-4}[bits]
    torch.testing.assert_close(opened, alpha @ weights, atol=near, rtol=0)
    torch.testing.assert_close(gradient, delta @ weights.T, atol=near, rtol=0)
    torch.testing.assert_close(following, weights - LR * alpha.T @ delta, atol=4 * near, rtol=0)


def test_noise_that_is_sent_after_it_grew_gives_a_wrong_gradient():
    alpha, delta = numbers(ROWS, INPUTS), numbers(ROWS, WIDTH, size=1e-4)  # so small that even this fits
    feature, label, weights = make_ends()
    right = back_and_forth(feature, label, alpha, delta)[1]
    torch.testing.assert_close(right, delta @ weights.T, atol=1e-3, rtol=0)
    feature, label, weights = make_ends()
    wrong = back_and_forth(feature, label, alpha, delta, early=True)[1]
    assert (wrong - delta @ weights.T).abs().max() > 0.02


@settings(max_examples=30)
@given(number=st.integers(-(2**47), 2**47 - 1))
def test_two_small_digits_make_one_large_number(number):
    low, high = _digits(np.array([[number]]), 24, 2)
    assert int(low[0, 0]) + (int(high[0, 0]) << 24) == number
    assert abs(int(low[0, 0])) <= 2**23 and abs(int(high[0, 0])) <= 2**23


def test_large_layers_are_multiplied_in_digits():
    ring = Ring(40, 0)
    assert Terms(ring, 64, 63, 0.1).digits == 1 and Terms(ring, 64, 64, 0.1).digits == 2
    assert Terms(Ring(48, 0), 1, 1, 0.1).digits == 2


def test_noise_fills_half_the_ring_and_follows_from_the_private_seed():
    draws = stretch(3, "noise", 0, (200, 200), 39)
    assert draws.min() < -0.99 * 2**38 and draws.max() > 0.99 * 2**38
    assert abs(draws.mean()) < 0.01 * 2**38 and draws.var() == pytest.approx((2**39) ** 2 / 12, rel=0.02)
    assert np.array_equal(draws, stretch(3, "noise", 0, (200, 200), 39))
    for other in ((4, "noise", 0), (3, "blur", 0), (3, "noise", 1)):
        assert not np.array_equal(draws, stretch(*other, (200, 200), 39))


def test_what_is_opened_is_no_exact_product_of_integers():
    """For width 1, an exact gradient's numbers would all be multiples of the row's delta."""
    feature, label, _ = make_ends(width=1)
    delta = numbers(ROWS, 1, size=0.2)
    seen = feature.gradient(label.gradient(feature.encrypted_noise(ROWS), delta, 0), ROWS)
    places, extra = label.terms.places, (ROWS - 1).bit_length()
    exact = torch.round(seen * 2.0 ** (places.delta + extra + places.weights)).long()
    divisors = torch.round(delta * 2.0 ** (places.delta + extra)).long()
    assert (exact % divisors != 0).float().mean() > 0.9
    assert all(int(np.gcd.reduce(row)) < 1000 for row in exact.numpy())


def test_a_gradient_that_could_wrap_round_is_refused():
    feature, label, _ = make_ends()
    with pytest.raises(DataError, match="gradients that fit the 40 bits"):
        label.weights_gradient(feature.operand(numbers(ROWS, INPUTS)), numbers(ROWS, WIDTH, size=1e3))


def test_a_product_for_another_batch_is_refused():
    feature, label, _ = make_ends()
    with pytest.raises(ProtocolError, match="of shape"):
        label.forward(feature.forward(numbers(ROWS, INPUTS)), ROWS + 1)


def test_what_is_kept_is_saved_and_taken_over_whole():
    kept, other = Memory(), Memory()
    kept.put("weights a-1", np.arange(6).reshape(2, 3))
    kept.put("weights a-1", np.arange(4).reshape(2, 2))
    other.put("noise", np.zeros((1, 1), np.int64))
    other.load_state_dict(kept.state_dict())
    assert other.find("noise") is None and np.array_equal(other.find("weights a-1"), [[0, 1], [2, 3]])
    assert not list(kept.parameters())
    nested = nn.ModuleDict({"cut": Memory()})
    nested.load_state_dict({"cut.noise": torch.ones(2, 2, dtype=torch.int64)})
    assert nested["cut"].find("noise").sum() == 4
    with pytest.raises(RuntimeError, match="expected noise to be a matrix of int64"):
        other.load_state_dict({"noise": torch.zeros(3)})
