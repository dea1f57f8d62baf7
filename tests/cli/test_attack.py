"""cutlayer attack: on a finished run, and its mistakes."""

import json

import pytest

from cutlayer.cli import main
from tests.helpers.command_line import FAST, run_json


def test_train_then_attack(capsys, tmp_path):
    out = tmp_path / "run"
    arguments = ["--defence", "gaussian-noise:std=0.01", "--bottom", "mlp:hidden=32", "--top", "mlp", "--valid", "0.1"]
    trained = run_json(capsys, "train", "--data", "breast-cancer", *FAST, "--out", out, *arguments, "--patience", "5")
    assert sorted(p.name for p in out.iterdir()) == ["models", "run.json", "transcript"]
    attacks = ["--attack", "norm-score", "--attack", "model-completion:labels=10"]
    report = run_json(capsys, "attack", out, *attacks, "--out", tmp_path / "findings.csv")
    assert report["accuracy"] == pytest.approx(trained["accuracy"])
    assert [f["metric"] for f in report["findings"]] == ["auc", "accuracy"]
    assert all({"value", "baseline", "low", "high", "granted"} <= set(f) for f in report["findings"])
    assert (tmp_path / "findings.csv").read_text().count("\n") == 3
    again = run_json(capsys, "attack", out, *attacks)
    for finding in (*report["findings"], *again["findings"]):
        assert finding.pop("seconds") >= 0  # a quick attack rounds to 0.000
    assert again == report  # repeatable
    assert main(["attack", str(out), "--attack", "norm-score"]) == 0
    assert "baseline" in capsys.readouterr().out


def test_attack_mistakes(capsys, tmp_path):
    assert main(["attack", str(tmp_path / "nowhere")]) == 2
    assert "Expected a run folder" in capsys.readouterr().err
    (tmp_path / "unfinished").mkdir()
    assert main(["attack", str(tmp_path / "unfinished")]) == 2
    assert "unfinished" in capsys.readouterr().err
    (tmp_path / "unfinished/run.json").write_text("{")
    assert main(["attack", str(tmp_path / "unfinished")]) == 2
    assert "Expected JSON" in capsys.readouterr().err
    for text, message in (("[]", "damaged"), ('{"task": {}, "plan": {}}', "damaged")):
        (tmp_path / "unfinished/run.json").write_text(text)
        assert main(["attack", str(tmp_path / "unfinished")]) == 2
        assert message in capsys.readouterr().err
    assert main(["attack", str(tmp_path / "unfinished"), "--attack", "guesswork"]) == 2
    assert "Unknown attack 'guesswork'" in capsys.readouterr().err
    assert main(["train", "--data", "wine", *FAST, "--out", str(tmp_path / "run"), "--keep", "none"]) == 0
    capsys.readouterr()
    record = json.loads((tmp_path / "run/run.json").read_text())
    del record["plan"]["lr"]
    record["plan"]["speed"] = 9
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd/run.json").write_text(json.dumps(record))
    assert main(["attack", str(tmp_path / "odd")]) == 2
    assert "plan in run.json" in capsys.readouterr().err
    assert main(["attack", str(tmp_path / "run"), "--by", "nobody"]) == 2
    assert "Unknown party 'nobody'" in capsys.readouterr().err
    completion = ["attack", str(tmp_path / "run"), "--attack", "model-completion"]
    assert main([*completion, "--by", "party1"]) == 2
    assert (
        "model-completion is by a feature party, and party1 holds the labels: use --by party2."
        in capsys.readouterr().err
    )
    assert main([*completion, "--out", str(tmp_path / "findings.html")]) == 2
    assert "Expected --out to end in .csv" in capsys.readouterr().err


def test_all_attacks_of_one_party_are_those_of_its_role(capsys, tmp_path, monkeypatch):
    assert main(["train", "--data", "wine", *FAST, "--out", str(tmp_path / "run")]) == 0
    ran = []
    monkeypatch.setattr(
        "cutlayer.auditing.attacking.attack_run", lambda run, attacks, **options: ran.extend(attacks) or []
    )
    assert main(["attack", str(tmp_path / "run"), "--by", "party2"]) == 0
    assert {attack.by.value for attack in ran} == {"feature party"}


def test_code_that_a_run_names_is_imported_only_if_trusted(capsys, tmp_path):
    arguments = ["--defence", "tests.test_spec.Mine", "--out", str(tmp_path / "run")]
    assert main(["train", "--data", "wine", *FAST, *arguments]) == 0
    attack = ["attack", str(tmp_path / "run"), "--attack", "model-completion:labels=6"]
    assert main(attack) == 2
    assert "tests.test_spec.Mine" in capsys.readouterr().err
    assert main([*attack, "--trust"]) == 0
