import numpy as np
import pytest

from cutlayer.attacks.tools.binary.noise import distance, edge, likeness, threshold


def noisy(share: float, frequency: float, rows: int = 200_000):
    """A two-valued column of unit variance in all, so much of it noise; and its bits."""
    rng = np.random.default_rng(0)
    bits = np.arange(rows) < frequency * rows
    clean = (bits - frequency) / (frequency * (1 - frequency)) ** 0.5
    return (1 - share) ** 0.5 * clean + share**0.5 * rng.standard_normal(rows), bits


@pytest.mark.parametrize(("share", "frequency"), [(0.05, 0.5), (0.3, 0.5), (0.1, 0.2), (0.3, 0.05)])
def test_noise_is_taken_out_of_the_moments(share, frequency):
    values, _ = noisy(share, frequency)
    assert abs(likeness(values[:, None], np.array([share]))[0]) < 0.2 and distance(values, share) < 0.005


def test_other_laws_are_told_apart():
    rng = np.random.default_rng(0)
    laws = np.stack([rng.standard_normal(100_000), rng.uniform(-(3**0.5), 3**0.5, 100_000)], axis=1)
    score = likeness(laws, np.zeros(2))
    assert score[0] == pytest.approx(2 / 0.45, rel=0.05) and score[1] == pytest.approx(0.8 / 0.45, rel=0.05)
    assert likeness(laws, np.full(2, 0.5)).tolist() == [np.inf, np.inf], "drowned"
    assert distance(laws[:, 1], 0.1) > 0.06


def test_the_threshold_is_the_midpoint_moved_by_the_odds():
    """By hand, at one half: zero. A rarer level needs more evidence, so the cut moves towards it."""
    values, bits = noisy(0.2, 0.5)
    assert threshold(values, 0.2) == pytest.approx(0, abs=0.01)
    values, bits = noisy(0.2, 0.1)
    cut = threshold(values, 0.2)
    wrong = {move: ((values > cut + move) != bits).mean() for move in (-0.2, 0, 0.2)}
    assert wrong[0] < wrong[-0.2] and wrong[0] < wrong[0.2]


def test_the_rank_of_the_signal_is_where_the_plain_begins():
    rng = np.random.default_rng(0)
    signal = rng.standard_normal((3000, 4)) @ rng.standard_normal((4, 30))
    values = np.linalg.svd(signal + 0.1 * rng.standard_normal((3000, 30)), compute_uv=False)
    assert edge(values, 3000) == 4
    assert edge(np.linspace(1, 2, 30)[::-1] * 50, 3000) is None, "a slope has no plain"
