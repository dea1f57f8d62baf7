"""The recommendation, on numbers small enough to check by hand."""

import pytest

from cutlayer.experiment.choice import choose, front, options
from cutlayer.finding import Status


def row(defence, strength, attack, value, accuracy, *, baseline=0.5, target="labels", size=100, seed=0, spread=0.01):
    return {
        "defence": defence,
        "strength": strength,
        "attack": attack,
        "victim": "bank",
        "target": target,
        "metric": "accuracy",
        "value": value,
        "baseline": baseline,
        "low": value - spread,
        "high": value + spread,
        "accuracy": accuracy,
        "bytes": size,
        "train_seconds": 1.0,
        "status": Status.DONE,
        "seed": seed,
    }


ROWS = [
    row("none", "", "a", 0.9, 0.95),
    row("none", "", "b", 0.6, 0.95),
    row("noise", "std=1", "a", 0.7, 0.94),
    row("noise", "std=1", "b", 0.55, 0.94),
    row("noise", "std=9", "a", 0.5, 0.80),
    row("noise", "std=9", "b", 0.5, 0.80),
    row("bad", "", "a", 0.95, 0.90),
    row("small", "", "a", 0.75, 0.94, size=10),
]


def test_worst_attack_counts():
    by_name = {option.name: option for option in options(ROWS, ("labels",))}
    assert by_name["none"].leakage == pytest.approx(0.8) and by_name["none"].worst == "a" and not by_name["none"].sealed
    assert by_name["noise:std=1"].leakage == pytest.approx(0.4)
    assert by_name["noise:std=9"].leakage == 0 and by_name["noise:std=9"].sealed


def test_the_front_holds_what_nothing_beats():
    names = {option.name for option in front(options(ROWS, ("labels",)))}
    assert names == {"none", "noise:std=1", "noise:std=9", "small"}


def test_the_least_leak_within_the_allowed_loss_is_chosen():
    answer = choose(ROWS, ("labels",), 2.0)
    assert answer["choice"] == "noise:std=1" and answer["runner_up"] == "small"
    assert "costs 1.0 points of accuracy" in answer["why"] and "40% of the way" in answer["why"]
    assert "No setup within these constraints brings every attack to its baseline." in answer["why"]
    assert answer["what_would_change"][0] == "With 15.0 points allowed, noise:std=9 leaks less (0%)."
    assert "small sends 10% of the bytes" in answer["what_would_change"][1]
    assert choose(ROWS, ("labels",), 20.0)["choice"] == "noise:std=9"
    assert "no attack that was run is shown to get beyond its baseline" in choose(ROWS, ("labels",), 20.0)["why"]


def test_no_threat_no_choice():
    assert choose(ROWS, ("features",), 2.0) is None


def test_undefended_may_be_the_answer():
    assert choose(ROWS[:2] + ROWS[6:7], ("labels",), 2.0)["why"].endswith("leaks less at this cost.")


def test_seeds_are_averaged_with_their_own_baselines():
    rows = [row("none", "", "a", 0.9, 0.9, baseline=0.5), row("none", "", "a", 0.8, 0.92, baseline=0.6, seed=1)]
    (option,) = options(rows, ("labels",))
    assert option.leakage == pytest.approx((0.8 + 0.5) / 2) and option.accuracy == pytest.approx(0.91)


def test_a_composition_without_settings_is_recommended_by_its_whole_name():
    rows = [row("none", "", "a", 0.9, 0.95), row("secure-sum+self-taught", "", "a", 0.5, 0.95)]
    answer = choose(rows, ("labels",), 2.0)
    assert answer["choice"] == "secure-sum+self-taught"
    assert answer["why"].startswith("secure-sum+self-taught costs no accuracy")
