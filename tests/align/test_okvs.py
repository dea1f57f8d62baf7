"""The table gives every key its value and looks uniform to everybody else."""

import os
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cutlayer.align import okvs
from cutlayer.errors import RunError


def random_bytes(rows, width=32):
    return np.frombuffer(os.urandom(rows * width), np.uint8).reshape(rows, width)


def random_values(rows):
    return random_bytes(rows, 16).view("<u8")


@settings(max_examples=30)
@given(st.integers(0, 400))
def test_every_key_decodes_to_its_value(count):
    keys, values = random_bytes(count), random_values(count)
    table = okvs.encode(keys, values)
    assert table.shape == (okvs.rows_for(count), 16) and table.dtype == np.uint8
    assert np.array_equal(okvs.decode(table, keys), values)


def test_many_keys_in_a_third_more_slots():
    keys, values = random_bytes(20_000), random_values(20_000)
    table = okvs.encode(keys, values)
    assert len(table) == 129 + 3 * (8667 + 100)
    assert np.array_equal(okvs.decode(table, keys), values)


def test_peeling_by_hand():
    # Keys 0 and 1 share slots 0 and 3; key 2 is alone in 1 and 4. Keys 3 and 4 share all three: they stay.
    places = np.array([[0, 3, 6], [0, 3, 7], [1, 4, 7], [2, 5, 8], [2, 5, 8]])
    rounds, stay = okvs.peel(places, 9)
    assert [(keys.tolist(), slots.tolist()) for keys, slots in rounds] == [([0, 2], [6, 1]), ([1], [0])]
    assert stay.tolist() == [3, 4]


def test_elimination_by_hand():
    masks = np.zeros((2, 16), np.uint8)
    masks[0, 0], masks[1, 0] = 0b11, 0b10  # slots 0 and 1; slot 1
    left = np.array([[5, 0], [3, 0]], np.uint64)
    dense = np.zeros((128, 2), np.uint64)
    assert okvs.solve(dense, masks, left)
    assert dense[0].tolist() == [5 ^ 3, 0] and dense[1].tolist() == [3, 0] and not dense[2:].any()
    assert not okvs.solve(dense, masks[[0, 1, 0]], left[[0, 1, 0]])


def test_keys_that_cannot_be_peeled_are_solved_by_the_dense_slots(monkeypatch):
    monkeypatch.setattr(okvs, "third", lambda keys: 1)  # all keys share all three slots
    keys, values = random_bytes(80), random_values(80)
    assert np.array_equal(okvs.decode(okvs.encode(keys, values), keys), values)


def test_no_endless_tries():
    with pytest.raises(RunError, match="table of 2 keys in 8 tries"):
        okvs.encode(np.repeat(random_bytes(1), 2, axis=0), random_values(2))


@pytest.mark.parametrize("count", [100, 300, 1000])
def test_few_keys_stay(count):
    rng, size = np.random.default_rng(count), okvs.third(count)
    stay = Counter(
        len(okvs.peel(rng.integers(0, size, (count, 3)) + np.arange(3) * size, 3 * size)[1]) for _ in range(200)
    )
    assert max(stay) <= 20 and stay[0] > 180  # 88 are allowed


def test_tables_and_values_elsewhere_are_uniform():
    tables = [okvs.encode(random_bytes(300), random_values(300)) for _ in range(10)]
    elsewhere = np.concatenate([okvs.decode(table, random_bytes(1000)) for table in tables])
    for sample in (np.concatenate(tables), elsewhere.view(np.uint8)):
        counts = np.bincount(sample.ravel(), minlength=256)
        expected = sample.size / 256
        assert ((counts - expected) ** 2 / expected).sum() < 380  # chi-squared, 255 degrees: p about 1e-6
        assert abs(np.unpackbits(sample).mean() - 0.5) < 0.01
