import pytest

from cutlayer.finding import Status, Target
from cutlayer.report.advantage import (
    Estimate,
    Standing,
    advantage,
    at_baseline,
    capability,
    heat,
    over_seeds,
    standing,
    value_over_seeds,
)
from cutlayer.report.cells import MatrixCell


@pytest.mark.parametrize(
    ("metric", "value", "baseline", "wanted"),
    [
        ("accuracy", 0.55, 0.1, 0.5),
        ("accuracy", 0.1, 0.1, 0.0),
        ("accuracy", 1.0, 0.1, 1.0),
        ("accuracy", 0.05, 0.1, -0.05 / 0.9),
        ("auc", 0.75, 0.5, 0.5),
        ("mse", 0.02, 0.08, 0.75),
        ("mse", 0.16, 0.08, -1.0),
        ("accuracy", 1.0, 1.0, 0.0),  # nothing left to gain
        ("mse", 0.0, 0.0, 0.0),
    ],
)
def test_advantage_is_the_way_from_the_baseline_to_perfect(metric, value, baseline, wanted):
    assert advantage(metric, value, baseline) == pytest.approx(wanted)


def row(value, baseline=0.5, metric="accuracy", low=None, high=None):
    return {"metric": metric, "value": value, "baseline": baseline, "low": low, "high": high}


def test_seeds_are_paired_with_their_own_baseline():
    """Values and baselines rise together: the gain is the same in every seed, so its interval has no width."""
    interval = over_seeds([row(0.75, 0.5), row(0.8, 0.6), row(0.9, 0.8)])
    assert (interval.mean, interval.low, interval.high) == pytest.approx((0.5, 0.5, 0.5))


def test_interval_over_seeds_is_students():
    interval = value_over_seeds([row(0.5), row(0.6), row(0.7)])
    margin = 4.302652729911275 * 0.1 / 3**0.5
    assert (interval.mean, interval.low, interval.high) == pytest.approx((0.6, 0.6 - margin, 0.6 + margin))


def test_intervals_do_not_leave_what_a_metric_can_reach():
    interval = value_over_seeds([row(0.6), row(1.0)])
    assert (interval.low, interval.high) == (0.0, 1.0)
    assert value_over_seeds([row(0.1, metric="mse"), row(3.0, metric="mse")]).high > 1


def test_neither_does_the_interval_of_a_models_utility():
    rows = [{"accuracy": value, "utility_metric": "accuracy", "status": Status.DONE} for value in (0.8, 0.99)]
    cell = MatrixCell("none", "", "pgd", Target.OUTCOME, "shop", "bank", tuple(rows))
    assert (cell.accuracy.low, cell.accuracy.high) == (0.0, 1.0)


def test_one_seed_has_the_interval_of_its_rows_or_none():
    interval = over_seeds([row(0.08, 0.1, "mse", low=0.07, high=0.09)])
    assert (interval.mean, interval.low, interval.high) == pytest.approx((0.2, 0.1, 0.3))
    assert over_seeds([row(0.6, low=0.6, high=0.6)]) == Estimate(pytest.approx(0.2), None, None)


def test_the_interval_decides_where_an_attack_stands():
    assert standing("accuracy", Estimate(0.1, 0.05, 0.15)) is Standing.ABOVE
    assert standing("accuracy", Estimate(0.1, -0.05, 0.25)) is Standing.AT
    assert standing("accuracy", Estimate(-0.1, -0.2, -0.05)) is Standing.BELOW
    assert standing("accuracy", Estimate(0.01, None, None)) is Standing.ABOVE  # no interval: the figure itself


def test_an_auc_below_chance_leaks_too():
    turned = Estimate(-0.6, -0.7, -0.5)
    assert standing("auc", turned) is Standing.TURNED and not at_baseline("auc", turned)
    assert at_baseline("accuracy", turned) and heat("auc", -0.6) == 0.6 and heat("accuracy", -0.6) == 0


def test_capability_is_one_at_the_ideal_and_falls_with_leak_and_cost():
    assert capability(0.0, 0.9, 0.9) == 1
    assert capability(1.0, 0.9, 0.9) == pytest.approx(1 / (1 + 0.5**0.5))
    assert capability(0.6, 0.1, 0.9) == pytest.approx(1 / (1 + (0.5 * 0.36 + 0.5 * 0.64) ** 0.5))
    assert capability(0.6, 0.1, 0.9, weight=1.0) == pytest.approx(1 / 1.8)
