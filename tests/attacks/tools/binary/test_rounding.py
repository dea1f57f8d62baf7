import numpy as np
import pytest
import torch

from cutlayer.attacks.tools.binary.rounding import rounding_of
from tests.helpers.binary_tables import sent, table

COLUMNS, BITS = table(1200, 8)


def test_left_over_directions_have_the_size_of_uniform_rounding():
    """Numbers rounded to steps of h are off by h / 12^(1/2): one, as `values` are scaled."""
    exact = sent(COLUMNS).astype(float) + np.random.default_rng(0).normal(size=18)
    rounding = rounding_of(exact.round(6))
    assert rounding.rank == 8 and not rounding.doubt and rounding.span is not None
    assert rounding.span.values[8:] == pytest.approx(1, abs=0.15)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_how_far_rounding_turned_the_span_is_bounded(kind, scale):
    """Against the columns themselves, which the span of exact messages holds exactly."""
    columns = COLUMNS * np.where(np.arange(8) < 5, 1, scale)
    exact = columns @ np.random.default_rng(1).standard_normal((8, 20))
    rounding = rounding_of(exact.astype(kind))
    assert rounding.rank == 8 and not rounding.doubt
    unit = (columns - columns.mean(axis=0)) / columns.std(axis=0)
    rest = unit - rounding.span.basis @ (rounding.span.basis.T @ unit)
    assert np.sqrt((rest**2).mean(axis=0)).max() < rounding.turn
    assert np.abs(rest[:, :5] * columns[:, :5].std(axis=0)).max() < rounding.off


def test_large_numbers_and_far_rows_do_not_drown_the_others():
    columns = COLUMNS.copy()
    columns[:, 5:] *= 1e4
    columns[7, 6] *= 1e3
    assert rounding_of(sent(columns)).rank == 8


@pytest.mark.parametrize(
    ("messages", "words"),
    [
        (sent(COLUMNS, extra=0), "all 8 directions stand above the rounding to float32"),
        (sent(COLUMNS, extra=1), "only 1 direction is left over"),
        (sent(COLUMNS, noise=1e-5), "all 18 directions stand above"),
        (sent(COLUMNS)[:30], "30 rows are too few"),
        (torch.from_numpy(sent(COLUMNS)).half(), "the weakest of 8 directions is too near to the rounding to float16"),
        (sent(COLUMNS).round(2), "the weakest of 8 directions is too near to the rounding to 2 decimals"),
        (sent(COLUMNS * np.where(np.arange(8) < 5, 1, 1e5)), "the weakest of 8 directions is too near"),
        (np.full((50, 4), 0.1), "all messages are equal"),
    ],
)
def test_the_reason_is_said(messages, words):
    assert words in rounding_of(messages).doubt


def test_a_message_whose_noise_cannot_be_seen_is_in_doubt():
    """Of noisy messages one is sent twice, and another is half of a third: nothing is left over but these rules."""
    noisy = sent(COLUMNS, noise=0.05).astype(float)
    for kind in (np.float32, np.float64):
        copied = np.column_stack([noisy, noisy[:, 0], noisy[:, 1] / 2, noisy[:, 2] * 3]).astype(kind)
        assert rounding_of(copied).doubt


def test_noise_that_adds_up_to_zero_in_every_row_is_in_doubt():
    """In two ways, so that two directions are left over which show none of it."""
    noisy = sent(COLUMNS, extra=24, noise=0.05).astype(float)
    for half in (slice(0, 16), slice(16, 32)):
        noisy[:, half] -= noisy[:, half].mean(axis=1, keepdims=True)
    rounding = rounding_of(noisy.astype(np.float32))
    assert rounding.rank == 30 and "alike, as noise would make them" in rounding.doubt
