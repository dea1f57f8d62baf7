"""Secure sum: float32 embeddings end in zeros in a finer fixed point, where the sum shows X_a W_mask alone.

The label party knows X_a, so it solves S = X_a W_mask modulo 2^k, which is W_mask itself once k is 10.
"""

import numpy as np
import pytest
import torch

from cutlayer.crypto import Paillier, Ring
from cutlayer.cuts.parts.dither import Dither
from cutlayer.cuts.parts.masking import Holder, places_of
from cutlayer.cuts.secure_sum import SecureSum
from cutlayer.message import Kind, Phase
from cutlayer.models.mlp import MLP
from cutlayer.plan import Plan, assemble
from cutlayer.recipe import Optimiser, Recipe
from cutlayer.transcript import Keep, Policy, Transcript
from tests.helpers.random_task import random_task
from tests.helpers.toy import rng

ROWS, COLUMNS, WIDTH, ZEROS = 128, 4, 16, 10


def opened(bits):
    """One epoch under secure-sum: the sums as the label party has them, in the ring; its rows; the true W_mask."""
    task, seen = random_task("low bits", ROWS, 2, COLUMNS, 0.3, own=True), Transcript(Keep(Policy.ALL))
    task.features["p1"].values.mul_(64)  # embeddings of about 10
    recipe = Recipe(epochs=1, batch_size=32, lr=1e-3, optimiser=Optimiser.SGD)
    plan = Plan(
        bottoms=lambda features, width: MLP(COLUMNS, [width], bias=False),
        top=lambda inputs, outputs: MLP(inputs, [outputs]),
        width=WIDTH,
        cut=SecureSum(bits=bits),
        recipe=recipe,
    )
    session = assemble(task, plan, seen.record)
    session.train_epoch(0, task.train)
    rows, messages, _ = seen.channels["p1", "p0", Kind.EMBEDDING, Phase.TRAIN].read()
    label = session.label_party.cut
    sums = label._ring.add(messages.numpy(), label._shares.of(rows.numpy()))
    own = label._ring.centred(label._ring.encode(task.features["p0"].values[rows], bits - 16 - places_of(COLUMNS)))
    return sums, own, session.parties["p1"].cut._holder.weights


def solved(left, right, bits):
    """x with left x = right modulo 2^bits; None if left has no inverse there."""
    left, right, modulus = left.astype(object) % 2**bits, right.astype(object) % 2**bits, 2**bits
    for place in range(len(left)):
        odd = [row for row in range(place, len(left)) if left[row, place] % 2]
        if not odd:
            return None
        for matrix in (left, right):
            matrix[[place, odd[0]]] = matrix[[odd[0], place]]
        inverse = pow(int(left[place, place]), -1, modulus)
        left[place], right[place] = left[place] * inverse % modulus, right[place] * inverse % modulus
        for row in range(len(left)):
            if row != place:
                factor = left[row, place]
                left[row] = (left[row] - factor * left[place]) % modulus
                right[row] = (right[row] - factor * right[place]) % modulus
    return right.astype(np.int64)


def low_bits_attack(sums, own, tries=150):
    """Columns of W_mask from the low bits: solve from a few rows, keep what most others agree with."""
    draws, found, most = np.random.default_rng(0), {}, np.full(WIDTH, 0.3)
    for _ in range(tries):
        few = draws.choice(len(own), COLUMNS, replace=False)
        weights = solved(own[few], sums[few], ZEROS)
        if weights is None:
            continue
        agree = ((sums - own @ weights) % 2**ZEROS == 0).mean(axis=0)
        for column in np.nonzero(agree > most)[0]:
            most[column] = agree[column]
            found[int(column)] = (weights[:, column] + 2 ** (ZEROS - 1)) % 2**ZEROS - 2 ** (ZEROS - 1)
    return found


def exact(found, weights):
    return sum(np.array_equal(guess, weights[:, column]) for column, guess in found.items())


def test_without_a_dither_low_bits_give_w_mask_away(monkeypatch):
    monkeypatch.setattr(Holder, "blurred", lambda holder, encoded, embedding: encoded)
    sums, own, weights = opened(48)
    assert exact(low_bits_attack(sums, own), weights) >= 12


@pytest.mark.parametrize("bits", [40, 48])
def test_with_it_nothing_is_found(bits):
    sums, own, _ = opened(bits)
    assert low_bits_attack(sums, own) == {}


KINDS = {
    "normal": lambda shape: torch.randn(shape, generator=rng(1)),
    "large": lambda shape: 1000 * torch.randn(shape, generator=rng(1)),
    "codes": lambda shape: torch.randn(shape, generator=rng(1)).sign(),
    "zeros": torch.zeros,
}


@pytest.mark.parametrize("bits", [40, 48])
@pytest.mark.parametrize("kind", KINDS)
def test_low_bits_of_the_sum_are_uniform(kind, bits):
    """Pearson's statistic over the low byte of z + dither, and over the bits up to the last place of float32."""
    ring, places = Ring(bits, bits - 16), places_of(COLUMNS)
    embedding = KINDS[kind]((1000, 32)) + torch.arange(1000)[:, None] * (2.0**-30 if kind == "zeros" else 0.0)
    total = ring.add(ring.encode(embedding), Dither(ring, places, 3).of(embedding))
    counts = np.bincount(total.ravel() & 255, minlength=256)
    assert places >= 8 and pearson(counts) < 350  # 255 degrees of freedom: 1 in 30,000
    if kind in ("normal", "large"):
        last = np.frexp(embedding.numpy())[1] - 24 + ring.fraction
        for bit in range(int(np.median(last))):
            held = (total >> bit & 1)[last > bit]
            assert pearson(np.bincount(held, minlength=2)) < 20


def pearson(counts):
    expected = counts.sum() / len(counts)
    return float(((counts - expected) ** 2 / expected).sum())


def test_the_dither_is_smaller_than_its_cell_and_repeats_for_the_same_embedding():
    ring, places = Ring(48, 32), places_of(COLUMNS)
    embedding = 100 * torch.randn(500, 8, generator=rng(2))
    dither = Dither(ring, places, 3)
    noise = ring.centred(dither.of(embedding))
    cell = 2.0 ** np.maximum(np.frexp(embedding.numpy())[1] - 24 + 32, places)
    assert (np.abs(noise) <= cell / 2).all() and noise.std() > 0.2 * cell.mean()
    assert np.array_equal(dither.of(embedding[:3]), dither.of(embedding)[:3])  # asking again averages nothing away
    assert not np.array_equal(dither.of(embedding), Dither(ring, places, 4).of(embedding))


def test_embeddings_of_few_values_give_w_mask_away_all_the_same():
    """A limit, stated in the docstring: no noise below rounding hides a sum whose unknown part is +1 or -1."""
    ring = Ring(40, 24)
    holder, places = Holder(Paillier(ring, 512, for_tests=True), COLUMNS, 1, 5), places_of(COLUMNS)
    own = ring.centred(ring.encode(torch.randn(60, COLUMNS, generator=rng(3)), 24 - places))
    codes = torch.randn(60, 1, generator=rng(4)).sign()
    sums = ring.centred(
        ring.add(holder.blurred(ring.encode(codes), codes), ring.matmul(own, ring.wrap(holder.weights)))
    )
    best = []
    for guess in np.ndindex(*(2,) * COLUMNS):  # the codes of a few rows
        few = sums[:COLUMNS, 0] - (2 * np.array(guess) - 1) * 2**24
        weights = np.rint(np.linalg.solve(own[:COLUMNS].astype(float), few)).astype(np.int64)
        rest = (sums[:, 0] - own @ weights) / 2**24
        best.append((np.abs(np.abs(rest) - 1).max(), weights.tolist(), np.sign(rest)))
    distance, weights, read = min(best, key=lambda each: each[0])
    assert distance < 1e-3 and weights == holder.weights[:, 0].tolist()
    assert np.array_equal(read, codes[:, 0].numpy())
