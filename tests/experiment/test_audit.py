"""cl.audit and `cutlayer audit` are one thing: the same words and objects give the same findings."""

import pytest

import cutlayer as cl
from cutlayer.cli import main
from cutlayer.report.cells import cells_of
from cutlayer.report.record import Record
from cutlayer.report.row import CLOCK
from cutlayer.settings import read_attacks, read_defences

SETUPS = ("none", "gaussian-noise:std=0.5", "hash:bits=8+max-norm")
ATTACKS = ("model-completion:labels=6,epochs=2,steps=4", "norm-score", "model-inversion:images=5,steps=3")


def timeless(record):
    return [{key: value for key, value in row.items() if key not in CLOCK} for row in record.rows]


def test_the_command_line_and_python_find_the_same(tmp_path):
    words = [*(f"--defence={setup}" for setup in SETUPS), *(f"--attack={attack}" for attack in ATTACKS)]
    options = ["--data", "wine", "--epochs", "2", "--seeds", "2", "--max-accuracy-loss", "100", "--workers", "1"]
    assert main(["audit", *options, *words, "--out", str(tmp_path / "audit")]) == 0
    report = cl.audit(
        cl.data.wine(),
        defences={setup: read_defences([setup]) for setup in SETUPS},
        attacks=read_attacks(ATTACKS),
        seeds=range(2),
        epochs=2,
    )
    there = Record.open(tmp_path / "audit")
    assert timeless(report.record()) == timeless(there) and len(there.rows) >= 18
    assert {row["status"] for row in there.rows} == {"done", "does not apply"}
    same = ("parties", "label_party", "epochs", "batch_size", "optimiser", "seeds", "width", "setup_notes")
    assert [report.record().facts[key] for key in same] == [there.facts[key] for key in same]
    assert report.record().extras == there.extras


class Refusing(cl.Defence):
    """Cannot be trained."""

    def model(self, module, setting):
        raise cl.ConfigError("not with me")


class Broken(cl.attacks.NormScore):
    """Breaks when it runs."""

    def applies(self, manifest):
        return None

    def run(self, view, rng):
        raise ZeroDivisionError("on purpose")


def audit(defences, attacks, **options):
    recipe = cl.Recipe(epochs=1, batch_size=32)
    return cl.audit(cl.data.wine(), defences=defences, attacks=attacks, recipe=recipe, **options)


def test_a_defence_that_cannot_be_trained_says_so_in_its_rows():
    report = audit({"refusing": [Refusing()], "none": []}, [cl.attacks.ModelCompletion(labels=6, epochs=1)])
    refused, done = report.rows
    assert refused["defence"] == "refusing" and (refused["status"], refused["reason"]) == (
        "does not apply",
        "not with me",
    )
    assert done["status"] == "done" and [row["value"] == row["value"] for row in report.summary()] == [False, True]


def test_an_audit_in_which_nothing_can_be_trained_raises_the_error():
    with pytest.raises(cl.ConfigError, match="not with me"):
        audit({"refusing": [Refusing()]}, [cl.attacks.NormScore()])
    with pytest.raises(TypeError, match="epoch"):
        audit({"none": []}, [cl.attacks.NormScore()], epoch=3)


def test_an_attack_that_breaks_is_a_row_with_its_reason():
    (row,) = audit({"none": []}, [Broken()]).rows
    assert (row["status"], row["reason"]) == ("failed", "ZeroDivisionError: on purpose")


def test_rows_keep_the_order_of_the_defences_and_files_have_them(tmp_path):
    report = audit({"z": [], "none": [], "a:b=1": []}, [cl.attacks.ModelCompletion(labels=6, epochs=1)])
    assert [(row["defence"], row["strength"]) for row in report.rows] == [("z", ""), ("none", ""), ("a:b=1", "")]
    report.save(tmp_path / "x.csv")
    report.save(tmp_path / "x.html")
    assert len((tmp_path / "x.csv").read_text().splitlines()) == 4
    assert "a:b=1" in (tmp_path / "x.html").read_text()


def columns(defences):
    report = audit(defences, [cl.attacks.NormScore()])
    return [(row["defence"], row["strength"]) for row in report.rows], report


def test_a_key_is_a_label_and_the_strength_is_that_of_the_objects():
    noise, dp = cl.defences.GaussianNoise(std=0.5), cl.defences.LabelDP(epsilon=2.0)
    given = {
        "label-dp": [dp],
        "noise: strong+er": [noise],
        "the same noise": [noise],
        "both": [noise, cl.defences.MaxNorm()],
        "gaussian-noise:std=0.50": [noise],
    }
    found, report = columns(given)
    assert found == [
        ("label-dp", "epsilon=2.0"),
        ("noise: strong+er", "std=0.5"),
        ("the same noise", "std=0.5"),
        ("both", "std=0.5+"),
        ("gaussian-noise", "std=0.50"),
    ]
    cells = cells_of(report.record())
    assert {cell.setup for cell in cells} >= {"label-dp:epsilon=2.0", "noise: strong+er (std=0.5)"}
    assert set(report.record().facts["setup_notes"]) <= {cell.setup for cell in cells}


def test_two_keys_that_a_report_cannot_tell_apart_are_refused():
    dp = cl.defences.LabelDP(epsilon=2.0)
    with pytest.raises(
        cl.ConfigError, match=r"'label-dp' and 'label-dp:epsilon=2\.0': a report calls both label-dp:eps"
    ):
        audit({"label-dp": [dp], "label-dp:epsilon=2.0": [dp]}, [cl.attacks.NormScore()])
    with pytest.raises(cl.ConfigError, match=r"no defence under the name 'none', got label-dp:epsilon=2\.0"):
        audit({"none": [dp]}, [cl.attacks.NormScore()])
