"""W = P F: as wide as nn.Linear's weights, close to independent of either factor, and shared in two uniform halves."""

import numpy as np
import pytest
import torch

from cutlayer.crypto import Paillier, Ring
from cutlayer.cuts.parts.layer_ends import NoiseEnd, Terms, WeightsEnd
from cutlayer.cuts.parts.layer_start import mixed, signs, small_numbers
from tests.helpers.toy import rng

PLACES = 18


def drawn(inputs, width, seed):
    factors = signs(inputs, width, seed), small_numbers(inputs, width, PLACES, seed + 1)
    return factors[0] @ factors[1] / 2.0**PLACES, *factors


@pytest.mark.parametrize(("inputs", "width"), [(3, 3), (64, 16), (16, 64)])
def test_the_start_has_the_variance_of_a_linear_layer(inputs, width):
    weights = np.concatenate([drawn(inputs, width, 7 * seed)[0].ravel() for seed in range(20_000 // (inputs * width))])
    assert weights.mean() == pytest.approx(0, abs=4 * weights.std() / len(weights) ** 0.5)
    assert weights.var() == pytest.approx(1 / (3 * inputs), rel=0.06)
    assert (weights**4).mean() / weights.var() ** 2 == pytest.approx(3, abs=0.25)  # normal: no direction stands out


def test_both_shares_are_uniform_and_give_the_product():
    halves, ring = [], Ring(40, 0)
    for seed in range(40):
        scheme, terms = Paillier(ring, 512, for_tests=True), Terms(ring, 4, 3, 0.1)
        feature = NoiseEnd(scheme, terms, seed)
        label = WeightsEnd(scheme.read_key(feature.secret.public.to_bytes()), terms, seed + 1000)
        noise = feature.begin(label.begin(feature.factor()))
        product = signs(4, 3, seed + 1000) @ small_numbers(4, 3, terms.places.weights, seed)
        assert np.array_equal(ring.centred(ring.add(noise, label.weights)), product)
        halves.append(np.stack([noise, label.weights]))
    shares = np.stack(halves).transpose(1, 0, 2, 3).reshape(2, -1) / 2**40
    error = 5 / shares.shape[1] ** 0.5
    assert (np.abs(shares.mean(axis=1) - 0.5) < error * (1 / 12) ** 0.5).all()
    assert (np.abs(shares.var(axis=1) - 1 / 12) < error * (1 / 180) ** 0.5).all()


def turned(weights, seed):
    """The same weights, as a party knows them that found out all but a rotation."""
    return torch.linalg.qr(torch.randn(len(weights), len(weights), generator=rng(seed)).double())[0] @ weights


def error_of(guess, weights):
    return float((guess - weights).norm() / weights.norm())


def nearest(seen, known):
    """The rotation of what was seen that comes nearest to what is known."""
    left, _, right = torch.linalg.svd(known @ seen.T)
    return left @ right @ seen


def test_half_of_a_sum_would_tell_the_rotation_and_a_factor_does_not():
    """The label party's side of a wide layer. Where m is small, the rotation is all that hides W from it."""
    inputs, width, by_half, by_factor = 4, 64, [], []
    for seed in range(20):
        halves = torch.randn(2, inputs, width, generator=rng(seed)).double()
        by_half.append(error_of(nearest(turned(halves.sum(0), seed), halves[0]), halves.sum(0)))
        weights, factor, _ = map(torch.from_numpy, drawn(inputs, width, 31 * seed))
        seen = turned(weights, seed)
        spread, known = (torch.linalg.eigh(m @ m.T).eigenvectors for m in (seen, factor.double()))
        by_factor.append(error_of(known @ spread.T @ seen, weights))  # axes of one upon those of the other
    assert np.mean(by_half) < 0.5
    assert np.mean(by_factor) > 1.0
    assert mixed(inputs, width) == 320
