"""Numbers are read by what they are, by the attack's name and by the victim's: never by position."""

import pytest

import cutlayer as cl
from cutlayer.papers.reading import read


def row(value, baseline=0.0, metric="accuracy", **more):
    given = {"status": "done", "victim": "party1", "value": value, "baseline": baseline, "metric": metric}
    return {**given, "seconds": 2.5, "figures": {}, **more}


def outcome(attacks=None, **more):
    given = {"status": "done", "metrics": {"accuracy": 0.9, "auc": 0.8}, "checks": {}}
    return {**given, "attacks": attacks or {}, **more}


def test_attacks_and_checks_are_read_by_name():
    result = outcome(
        {
            "nearest-code": [row(0.5, 0.25)],
            "pgd": [row(float("nan"), status="does not apply", victim="")],
            "decoder": [row(0.04, 0.07, metric="mse")],
        },
        checks={"hashvfl.detection": {"correct": 1.5}, "hashvfl.alarms": {"false alarms": 3}},
    )
    numbers = {
        "accuracy": 90,
        "auc": 80,
        "attack:nearest-code": 50,
        "baseline:nearest-code": 25,
        "seconds:nearest-code": 2.5,
        "attack:decoder": 0.04,
        "attack:pgd": None,
        "check:correct": 1.5,
        "check:false alarms": 3,
        "check:error": None,
    }
    for what, number in numbers.items():
        assert read(result, what) == (None if number is None else pytest.approx(number)), what


def test_a_victim_is_picked_by_name_wherever_it_stands():
    rows = [row(0.1, metric="mse", victim="party2"), row(0.2, metric="mse"), row(0.3, metric="mse", victim="party3")]
    result = outcome({"decoder": rows, "other": [row(0.5, metric="mse", victim="party2")]})
    assert read(result, "attack:decoder", "party1") == 0.2 and read(result, "error:decoder", "party3") == 0.3
    assert read(result, "attack:other", "party1") is None
    with pytest.raises(cl.ConfigError, match="which victim of decoder it means, one of party2, party1, party3"):
        read(result, "attack:decoder")


def test_figures_of_a_finding_are_read_by_name():
    figures = {"exact": 4, "columns": 5, "claimed": 9, "first": 98.76}
    result = outcome({"binary-search": [row(0.9, 0.7, "column accuracy", figures=figures)]})
    for kind, number in {"exact": 4, "claimed": 9, "first": 98.76, "off": None}.items():
        assert read(result, f"{kind}:binary-search") == number
    with pytest.raises(cl.ConfigError, match="Unknown kind of figure 'claims'"):
        read(result, "claims:binary-search")


def test_the_strongest_attack_has_the_least_error():
    result = outcome({"decoder": [row(0.1, metric="mse")], "completion": [row(0.95)], "pgd": [row(0, status="failed")]})
    assert read(result, "error:strongest") == pytest.approx(0.05)
    assert read(result, "cap:strongest") == pytest.approx(0.9 * 0.05) and read(result, "cap:decoder") == 0.9 * 0.1


def test_nothing_is_read_off_a_training_that_did_not_come_about():
    assert read({"status": "does not apply", "reason": "diverged"}, "accuracy") is None
