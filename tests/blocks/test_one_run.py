"""One run: the p-value by hand and by simulation, and what a bound does with guesses."""

from math import exp, log

import numpy as np
import pytest
from scipy.stats import binom

from cutlayer.blocks.one_run import least_epsilon, lower_bound, p_value


def test_without_delta_it_is_the_tail_of_a_binomial():
    truth = exp(1) / (1 + exp(1))
    assert p_value(100, 20, 18, 1.0, 0.0) == pytest.approx(sum(binom.pmf(k, 20, truth) for k in (18, 19, 20)))


def test_delta_adds_the_largest_average_mass_below():
    truth, right = exp(1) / (1 + exp(1)), 18
    worst = max(sum(binom.pmf(right - j, 20, truth) for j in range(1, i + 1)) / i for i in range(1, right + 1))
    assert p_value(100, 20, 18, 1.0, 1e-3) == pytest.approx(p_value(100, 20, 18, 1.0, 0.0) + 2 * 100 * 1e-3 * worst)


def test_the_bound_is_where_the_p_value_meets_the_chance():
    found = least_epsilon(1000, 200, 190, 1e-5, 0.05)
    assert p_value(1000, 200, 190, found, 1e-5) == pytest.approx(0.05, rel=1e-3)
    assert least_epsilon(1000, 200, 100, 1e-5, 0.05) == 0


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_randomised_response_is_refuted_no_more_often_than_said(epsilon):
    rng, wrong = np.random.default_rng(1), 0
    for _ in range(300):
        coins = rng.choice([-1.0, 1.0], 400)
        answers = np.where(rng.random(400) < 1 / (1 + exp(-epsilon)), coins, -coins)
        wrong += lower_bound(coins, answers, 0.0) > epsilon
    assert wrong <= 0.05 * 300


def test_all_right_gives_what_so_many_coins_can_show_and_zeros_abstain():
    coins = np.ones(1000)
    assert lower_bound(coins, coins, 0.0) == pytest.approx(log(1000 / log(6 / 0.05)), abs=0.02)
    assert lower_bound(coins, np.zeros(1000), 0.0) == 0 and lower_bound(coins, np.full(1000, np.nan), 0.0) == 0
