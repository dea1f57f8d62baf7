"""Recovered columns against true ones, on tables small enough to check by eye."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from cutlayer.metrics.columns import agreement, best_match, two_valued, with_sums


def test_two_valued_columns_are_those_with_exactly_two_values():
    table = np.array([[0.0, 5.0, 1.0, 2.0], [1.0, 5.0, 2.0, -3.0], [0.0, 5.0, 3.0, 2.0]])
    bits, numbers = two_valued(table)
    assert numbers == [0, 3]
    assert bits.tolist() == [[False, True], [True, False], [False, True]]


def test_agreement_is_the_share_of_equal_rows_or_of_unequal_ones():
    guess = np.array([[1, 0], [1, 0], [0, 0], [0, 1]], dtype=bool)
    truth = np.array([[0], [0], [1], [0]], dtype=bool)
    assert agreement(guess, truth).tolist() == [[0.75], [0.5]]  # the first is the complement but for one row


def test_an_unfound_column_counts_as_often_right_as_its_commoner_value():
    truth = np.array([[1], [1], [1], [0]], dtype=bool)
    nothing = np.zeros((4, 0), dtype=bool)
    assert (best_match(nothing, truth) == truth).mean() == pytest.approx(0.75)


@given(arrays(np.bool_, (9, 3)), st.integers(0, 7))
def test_columns_found_in_any_order_and_any_way_round_match_exactly(truth, turns):
    flips = np.array([turns >> bit & 1 for bit in range(3)], dtype=bool)
    guess = (truth ^ flips)[:, [2, 0, 1]]
    assert (best_match(guess, truth) == truth).all()


def test_one_hot_columns_stand_for_their_sums_too_but_not_for_the_constant():
    group = np.eye(4, dtype=bool)[[0, 1, 2, 3, 0]]
    assert with_sums(group).shape == (5, 14)  # 2^4 - 1 sums, less the all-ones vector
    overlapping = np.array([[1, 1], [1, 0], [0, 0]], dtype=bool)
    assert with_sums(overlapping).shape == (3, 2)
