"""Canaries: a lower bound beside every stated epsilon, and none where it cannot be had cheaply."""

from math import log

import pytest

from cutlayer.auditing.canaries import privacy_of, value_canaries
from cutlayer.blocks.one_run import lower_bound
from cutlayer.defences import PPDL, ColumnNoise, DpSgd, LabelDP, SelfTaught
from cutlayer.plan import Plan
from cutlayer.recipe import Recipe
from tests.helpers.small_task import make_task


def told(*defences, canaries=2000, parties=2):
    plan = Plan(defences=defences, recipe=Recipe(epochs=2, batch_size=16))
    return privacy_of(make_task(parties, "p0"), plan, canaries)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0, 4.0])
def test_randomised_labels_are_measured_close_to_their_epsilon(epsilon):
    (one,) = told(LabelDP(epsilon=epsilon))
    assert one.epsilon == epsilon and 0.5 * epsilon <= one.at_least <= epsilon


def test_two_valued_columns_too():
    (one,) = told(ColumnNoise(flip=0.1))
    assert one.epsilon == pytest.approx(log(9)) and 0.7 * log(9) < one.at_least <= log(9)
    coins, answers = value_canaries(ColumnNoise(flip=0.1), 5000, 1)
    assert (coins == answers).mean() == pytest.approx(0.9, abs=0.02)


def test_nothing_is_found_where_nothing_is_sent():
    (one,) = told(SelfTaught())
    assert one.epsilon == one.at_least == 0


def test_more_noise_shows_less():
    shown = [told(DpSgd(where="logits", noise=noise))[0].at_least for noise in (0.5, 1.0, 4.0)]
    assert shown[0] > shown[1] > shown[2]


def test_three_parties_help_an_auditor_to_no_more_than_epsilon():
    (one,) = told(DpSgd(where="logits", noise=1.0), parties=4)
    assert 0 < one.at_least <= one.epsilon


def test_what_is_not_measured():
    assert [one.at_least for one in told(DpSgd(where="gradient"))] == [None]
    (one,) = told(DpSgd(where="parameters"))
    assert one.epsilon is not None and one.at_least is None and "not measured" in one.sentence()


def test_of_two_guarantees_for_one_secret_the_smaller_is_the_total():
    first, second = told(LabelDP(epsilon=1.0), PPDL())
    assert first.epsilon == 1.0 and second.epsilon is None and "label-dp" in second.reason


def test_a_bound_of_random_scores_is_zero_nearly_always():
    import numpy as np

    rng = np.random.default_rng(0)
    bounds = [lower_bound(rng.choice([-1.0, 1.0], 500), rng.normal(size=500), 1e-5) for _ in range(200)]
    assert np.mean(np.array(bounds) > 0) <= 0.05
