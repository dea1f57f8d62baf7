"""Dependence, against numbers checked by hand, against its definition and against NumPy."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cutlayer.errors import DataError
from cutlayer.metrics.dependence import (
    column_correlation,
    correlation_matrix,
    distance_correlation,
    image_distance_correlation,
    noise_control,
)
from tests.helpers import distances

seeds = st.integers(0, 2**32 - 1)


def tables(seed, rows=12, p=3, q=2):
    """Two tables, the first column of the second drawn from the first."""
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(rows, p)), rng.normal(size=(rows, q))
    y[:, 0] += x[:, 0] ** 2
    return x, y


def test_correlation_of_columns_by_hand():
    """Column 0 rises with the truth, column 1 falls; column 2: 1 / (sqrt 2 * sqrt(2 / 3))."""
    truth = [[1, 1, 0], [2, 2, 1], [3, 3, 2]]
    guess = [[5, 9, 0], [6, 6, 0], [7, 3, 1]]
    assert column_correlation(truth, guess) == pytest.approx([1, -1, np.sqrt(3) / 2])


def test_a_constant_column_correlates_with_nothing():
    truth, guess = np.full((7, 2), 0.1), np.arange(14.0).reshape(7, 2)
    truth[:, 1] = guess[:, 1]
    assert column_correlation(truth, guess).tolist() == [0, pytest.approx(1)]
    assert column_correlation(guess, truth).tolist() == [0, pytest.approx(1)]
    assert correlation_matrix(truth, guess) == pytest.approx(np.array([[0, 0], [1, 1]]))


def test_tiny_and_huge_columns_correlate_too():
    column = np.array([[1.0], [2.0], [4.0]])
    assert column_correlation(column * 1e-200, column * 1e200) == pytest.approx([1])


def test_a_matrix_has_the_truth_down_and_the_guess_across():
    truth, guess = [[0.0], [1.0]], [[3.0, 1.0, 2.0], [4.0, 0.0, 2.0]]
    assert correlation_matrix(truth, guess) == pytest.approx(np.array([[1, -1, 0]]))


@given(seeds)
def test_correlation_against_numpy(seed):
    x, y = tables(seed, p=3, q=3)
    expected = np.corrcoef(x, y, rowvar=False)[:3, 3:]
    assert correlation_matrix(x, y) == pytest.approx(expected)
    assert column_correlation(x, y) == pytest.approx(np.diag(expected))
    assert column_correlation(x, 2 - 3 * x) == pytest.approx(-1)
    assert np.abs(column_correlation(x, x)).max() <= 1


def test_distance_correlation_by_hand():
    """x = 0, 1, 2 and y = 0, 0, 1.

    Centred distances of x, times 9: (-10, 2, 8), (2, -4, 2), (8, 2, -10); of y: (-2, -2, 4), (-2, -2, 4),
    (4, 4, -8). Sums of products 180 / 81, of squares 360 / 81 and 144 / 81: the square is
    180 / sqrt(360 * 144) = sqrt(10) / 4.
    """
    assert distance_correlation([[0], [1], [2]], [[0], [0], [1]]) == pytest.approx((np.sqrt(10) / 4) ** 0.5)


def test_unbiased_distance_correlation_by_hand():
    """x = 0, 0, 1, 1 and y = 0, 1, 0, 1.

    Distances of x: 1 across the halves; row sums 2, total 8. U-centred, 0 - 1 - 1 + 8/6 = -2/3 within a
    half, 1 - 1 - 1 + 8/6 = 1/3 across. The same for y with pairs (0, 2), (1, 3). Over the 12 ordered pairs:
    2 * 4 * (-2/3 * 1/3) + 4 * 1/9 = -12/9; squares 4 * 4/9 + 8 * 1/9 = 24/9. The ratio is -1/2.
    """
    x, y = [[0], [0], [1], [1]], [[0], [1], [0], [1]]
    assert distance_correlation(x, y, unbiased=True) == pytest.approx(-0.5)
    assert distance_correlation(x, y) == pytest.approx(0)


@given(seeds, st.integers(4, 20), st.integers(1, 5), st.integers(1, 5))
@settings(deadline=None)
def test_distance_correlation_against_its_definition(seed, rows, p, q):
    x, y = tables(seed, rows, p, q)
    assert distance_correlation(x, y) == pytest.approx(distances.distance_correlation(x, y))
    if rows > 5:  # with fewer, the definition's sums cancel and its own last digits are noise
        expected = distances.unbiased_distance_correlation(x, y)
        assert distance_correlation(x, y, unbiased=True) == pytest.approx(expected, abs=1e-9)


@given(seeds, st.booleans())
def test_distance_correlation_is_a_symmetric_likeness(seed, unbiased):
    x, y = tables(seed)
    value = distance_correlation(x, y, unbiased)
    assert (-1 if unbiased else 0) <= value <= 1
    assert distance_correlation(y, x, unbiased) == pytest.approx(value)
    assert distance_correlation(x, x, unbiased) == pytest.approx(1)
    turn, _ = np.linalg.qr(np.random.default_rng(seed).normal(size=(3, 3)))
    assert distance_correlation(5 * x @ turn - 1, y, unbiased) == pytest.approx(value)


def test_dependence_without_a_line_is_seen():
    """A parabola: no correlation, yet y is known from x."""
    x = np.linspace(-1, 1, 101)[:, None]
    assert column_correlation(x, x**2) == pytest.approx([0], abs=1e-12)
    assert distance_correlation(x, x**2) > 0.4 and distance_correlation(x, x**2, unbiased=True) > 0.2


@pytest.mark.parametrize("unbiased", [False, True])
def test_rows_that_are_all_alike_depend_on_nothing(unbiased):
    x, y = np.full((6, 3), 0.1), np.random.default_rng(0).normal(size=(6, 3))
    assert distance_correlation(x, y, unbiased) == 0
    assert distance_correlation(y, x, unbiased) == 0


def test_rows_that_are_equally_far_from_each_other_have_no_unbiased_variance():
    """U-centring leaves only rounding, whose correlation is no figure."""
    y = np.random.default_rng(0).normal(size=(7, 2))
    assert distance_correlation(np.eye(7) * 0.3, y, unbiased=True) == 0


def test_image_rows_are_the_observations():
    rng = np.random.default_rng(0)
    truth, guess = rng.uniform(size=(2, 3, 6, 4)), rng.uniform(size=(2, 3, 6, 4))
    for unbiased, reference in (
        (False, distances.distance_correlation),
        (True, distances.unbiased_distance_correlation),
    ):
        values = image_distance_correlation(truth, guess, unbiased)
        rows = [[np.hstack(list(image)) for image in side] for side in (truth, guess)]  # channels side by side
        assert rows[0][0].shape == (6, 12)
        assert values == pytest.approx([reference(t, g) for t, g in zip(*rows, strict=True)])
    assert image_distance_correlation(truth[:, 0], guess[:, 0])[1] == pytest.approx(
        distance_correlation(truth[1, 0], guess[1, 0])
    )
    assert image_distance_correlation(truth, 1 - truth) == pytest.approx(1)


@pytest.mark.parametrize(
    ("shape", "floor"),
    [((28, 14), 0.81), ((32, 16), 0.81), ((48, 24), 0.81), ((3, 32, 16), 0.93), ((3, 48, 24), 0.93)],
)
def test_noise_scores_high_unless_the_bias_is_taken_off(shape, floor):
    rng = np.random.default_rng(0)
    noise = rng.uniform(size=(60, *shape))
    assert noise_control(noise, rng).mean() == pytest.approx(floor, abs=0.01)
    assert noise_control(noise, rng, unbiased=True).mean() == pytest.approx(0, abs=0.03)


def test_the_control_comes_from_the_generator():
    truth = np.random.default_rng(0).uniform(size=(3, 8, 4))
    noise = np.random.default_rng(1).uniform(size=truth.shape)
    control = noise_control(truth, np.random.default_rng(1))
    assert control.tolist() == image_distance_correlation(truth, noise).tolist()


@pytest.mark.parametrize("metric", [column_correlation, correlation_matrix, distance_correlation])
def test_tables_that_cannot_be_compared_are_refused(metric):
    table = np.arange(8.0).reshape(4, 2)
    with pytest.raises(DataError, match=r"\(rows, columns\), got \(4,\)"):
        metric(table[:, 0], table)
    with pytest.raises(DataError, match=r"as many rows in \w+ as in \w+, got 4 and 3"):
        metric(table, table[:3])
    with pytest.raises(DataError, match="at least 2 rows, got 1"):
        metric(table[:1], table[:1])
    with pytest.raises(DataError, match="finite numbers only, got 1"):
        metric(table, np.where(table == 3, np.nan, table))


def test_columns_are_compared_one_to_one():
    with pytest.raises(DataError, match="one shape"):
        column_correlation(np.zeros((4, 2)), np.zeros((4, 3)))


def test_the_unbiased_figure_needs_four_rows():
    with pytest.raises(DataError, match="at least 4 rows, got 3"):
        distance_correlation(np.eye(3), np.eye(3), unbiased=True)
    with pytest.raises(DataError, match="at least 4 rows, got 3"):
        image_distance_correlation(np.ones((2, 3, 9)), np.ones((2, 3, 9)), unbiased=True)
    with pytest.raises(DataError, match="images, height, width"):
        noise_control(np.ones((3, 9)), np.random.default_rng(0))


@pytest.mark.parametrize("metric", [column_correlation, correlation_matrix, distance_correlation])
def test_inputs_stay_as_they_were(metric):
    x, y = tables(0, q=3)
    before = x.copy(), y.copy()
    metric(x, y)
    assert np.array_equal(x, before[0]) and np.array_equal(y, before[1])
