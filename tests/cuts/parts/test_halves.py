"""Shares of weights and of their steps: grids, ranges, and what rounding a share under momentum can do."""

import numpy as np
import pytest
import torch

from cutlayer.cuts.parts import halves
from cutlayer.cuts.parts.halves import MOST_SUM, RING, SUM, WEIGHT, decode_sum, encode_columns, encode_step, scaled
from cutlayer.errors import DataError
from cutlayer.message import Batch, Phase


def test_grids_fit_so_that_a_step_needs_no_rounding():
    assert halves.COLUMN + halves.STEP == WEIGHT and halves.COLUMN + WEIGHT == SUM


def test_steps_are_rounded_at_random_and_right_on_average():
    """A gradient of a quarter of the grid would always be dropped by rounding to the nearest."""
    gradient = torch.full((200, 100), 0.25 * 2.0**-halves.STEP)
    rounded = RING.centred(encode_step(gradient, 1.0, 1, 0))
    assert set(np.unique(rounded)) == {0, 1}
    assert rounded.mean() == pytest.approx(0.25, abs=6 * (0.25 * 0.75 / rounded.size) ** 0.5)
    assert np.array_equal(encode_step(gradient, 1.0, 1, 0), RING.wrap(rounded))
    assert not np.array_equal(encode_step(gradient, 1.0, 1, 1), RING.wrap(rounded))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: encode_columns(torch.tensor([[1025.0]])), "columns within 1024 of zero"),
        (lambda: encode_columns(torch.tensor([[float("nan")]])), "columns within 1024 of zero"),
        (lambda: encode_step(torch.tensor([[1e12]]), 1.0, 0, 0), "use a smaller lr"),
        (lambda: encode_step(torch.tensor([[float("nan")]]), 1.0, 0, 0), "use a smaller lr"),
        (lambda: decode_sum(RING.encode(np.array([[MOST_SUM + 1]]))), "sums within 1024 of zero"),
    ],
)
def test_numbers_out_of_range_are_refused(make, words):
    with pytest.raises(DataError, match=words):
        make()


def test_a_share_wraps_round_as_often_as_is_said_and_is_else_right_to_the_last_places():
    """Of shares of v a part of |v| / t wraps: 2^-6 here. Float64 has 53 of 56 bits: a share is off by 8 at most."""
    velocity = np.int64(1) << 50
    first = RING.uniform((40_000,))
    second = RING.subtract(np.full_like(first, velocity), first)
    off = RING.centred(RING.add(scaled(first, 0.9), scaled(second, 0.9)) - np.int64(round(0.9 * 2.0**50)))
    wrapped = np.abs(off) > 16
    assert wrapped.mean() == pytest.approx(2**-6, abs=6 * (2**-6 / first.size) ** 0.5)
    assert np.abs(np.abs(off[wrapped]) - round(0.1 * 2.0**56)).max() <= 16  # 0.9 t, less t


def test_a_wrapped_share_takes_sums_out_of_their_range():
    """One weight is off by 0.9 t: rows whose column is no multiple of ten land anywhere; none is missed by all."""
    columns = encode_columns(torch.randn(64, 1, generator=torch.Generator().manual_seed(0)))
    weights = RING.wrap(np.full((1, 1), round(0.9 * 2.0**56)))
    with pytest.raises(DataError, match="resume from the last checkpoint"):
        decode_sum(RING.matmul(RING.centred(columns), weights))


def test_the_blur_is_new_for_other_rows_steps_and_phases():
    batches = [
        Batch(step, phase, torch.arange(start, start + 4))
        for step, phase, start in [(0, Phase.TRAIN, 0), (1, Phase.TRAIN, 0), (0, Phase.PREDICT, 0), (0, Phase.TRAIN, 1)]
    ]
    blurs = [halves.blur(7, batch, 3) for batch in batches]
    assert len({blur.tobytes() for blur in blurs}) == len(blurs)
    assert all(np.abs(blur).max() <= 2 ** (WEIGHT - 1) for blur in blurs)
    assert np.array_equal(blurs[0], halves.blur(7, batches[0], 3))
