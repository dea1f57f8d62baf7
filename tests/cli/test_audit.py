"""cutlayer audit, report and compare as people use them, and every mistake they make."""

import csv
import json
import shutil

import pytest

from cutlayer.cli import main

QUICK = ["--data", "wine", "--epochs", "2", "--batch-size", "32", "--workers", "1"]
TWO = ["--defence", "none", "--defence", "label-dp:epsilon=1.0"]
ATTACK = ["--attack", "model-completion:labels=6,epochs=2,steps=4"]


def audit(*arguments):
    return main(["audit", *map(str, arguments)])


def error_text(capsys):
    return capsys.readouterr().err


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("study") / "audit"
    assert audit(*QUICK, *TWO, *ATTACK, "--max-accuracy-loss", 100, "--out", folder) == 0
    return folder


def test_a_study_folder_holds_everything(study):
    files = {path.name for path in study.iterdir()}
    wanted = {"study.toml", "outcomes.jsonl", "record.json", "report.html", "report.md"}
    assert files >= wanted | {f"findings.{kind}" for kind in ("csv", "parquet", "json")}
    with (study / "findings.csv").open() as file:
        rows = list(csv.DictReader(file))
    columns = "defence strength attack target seed metric value baseline low high accuracy bytes seconds status reason"
    assert set(columns.split()) <= set(rows[0]) and len(rows) == 2


def test_json_for_machines(study, capsys):
    assert audit(*QUICK, *TWO, *ATTACK, "--max-accuracy-loss", 100, "--out", study, "--json") == 0
    output = json.loads(capsys.readouterr().out)
    assert len(output["findings"]) == 2 and output["choice"]["choice"] and output["missing"] == []


def test_a_study_file_repeats_it(study, tmp_path, capsys):
    assert audit(study / "study.toml", "--max-accuracy-loss", 100, "--out", tmp_path / "again", "--workers", 1) == 0
    with (study / "findings.csv").open() as original, (tmp_path / "again" / "findings.csv").open() as repeat:
        first, second = ([(r["cell"], r["value"]) for r in csv.DictReader(file)] for file in (original, repeat))
    assert first == second
    capsys.readouterr()
    assert main(["compare", str(study), str(tmp_path / "again")]) == 0
    assert main(["report", str(study), "--picture", str(tmp_path / "matrix.png")]) == 0
    assert (tmp_path / "matrix.png").read_bytes().startswith(b"\x89PNG")


def test_save_study_writes_the_words_and_stops(tmp_path):
    assert (
        audit("--data", "wine", "--depth", "standard", "--save-study", tmp_path / "s.toml", "--out", tmp_path / "o")
        == 0
    )
    assert "hash:bits=8" in (tmp_path / "s.toml").read_text() and not (tmp_path / "o").exists()


def test_constraints_that_nothing_meets(tmp_path, capsys):
    arguments = [*QUICK, "--defence", "label-dp:epsilon=0.01", "--defence", "none", *ATTACK, "--out", tmp_path / "a"]
    assert audit(*arguments, "--max-accuracy-loss", -50) == 2
    assert "without a recommendation: No setup keeps the model within -50 points" in error_text(capsys)
    assert (tmp_path / "a" / "report.html").exists()


def test_attacks_that_apply_to_nothing(tmp_path, capsys):
    assert audit(*QUICK, "--defence", "none", "--attack", "norm-score", "--out", tmp_path / "a") == 2
    assert "no attack on labels, features, outcome applies" in error_text(capsys)


def test_attacks_that_fail_are_not_said_to_apply_to_nothing(tmp_path, capsys, monkeypatch):
    def failing(run, attacks, **options):
        raise ZeroDivisionError("on purpose")

    monkeypatch.setattr("cutlayer.experiment.work.attack_run", failing)
    assert audit(*QUICK, "--defence", "none", *ATTACK, "--out", tmp_path / "a") == 2
    assert f"1 attacks failed, such as {ATTACK[1]}: ZeroDivisionError: on purpose" in error_text(capsys)


def test_a_table_may_do_without_columns(tmp_path):
    table = ["people.csv", "--label", "y", "--without", "day", "--without", "note", "--goal", "multiclass"]
    assert audit(*table, *ATTACK, "--save-study", tmp_path / "s.toml", "--out", tmp_path / "o") == 0
    text = (tmp_path / "s.toml").read_text()
    assert 'without = ["day", "note"]' in text and 'goal = "multiclass"' in text


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--threat", "money"], "Expected --threat to be one of labels, features, outcome, got 'money'"),
        (["--depth", "profound"], "Unknown depth 'profound'"),
        (["--attack", "norm-scor"], "Did you mean 'norm-score'?"),
        (["--seeds", "0"], "Expected seeds=0 to be at least 1"),
        (["--workers", "0"], "Expected workers=0 to be at least 1"),
        (["--workers", "-3"], "Expected workers=-3 to be at least 1"),
        (["--without", "day"], "Expected a table beside --label"),
        (["--label", "y"], "Expected a table beside --label"),
        (["--track", "diary:x"], "Unknown tracker 'diary'"),
        (["nowhere.toml"], "Expected a study file at nowhere.toml, found none"),
    ],
)
def test_mistakes_are_one_sentence(arguments, text, tmp_path, capsys):
    assert audit(*arguments, "--epochs", "1", "--out", tmp_path / "a") == 2
    assert text in error_text(capsys)
    assert not (tmp_path / "a" / "report.html").exists()


def test_another_studys_folder_is_refused(study, capsys):
    assert audit(*QUICK, "--epochs", "3", *TWO, *ATTACK, "--out", study) == 2
    assert "is of another study (epochs)" in error_text(capsys)


def test_an_unfinished_study_is_reported_with_what_is_missing(study, tmp_path, capsys):
    shutil.copytree(study, tmp_path / "cut")
    outcomes = tmp_path / "cut" / "outcomes.jsonl"
    outcomes.write_text(outcomes.read_text().splitlines(keepends=True)[0])
    (tmp_path / "cut" / "record.json").unlink()
    assert main(["report", str(tmp_path / "cut")]) == 0
    assert "missing" in (tmp_path / "cut" / "report.md").read_text()
