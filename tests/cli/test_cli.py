"""The command line as people use it, and every mistake they make: one sentence, exit 2, nothing written."""

import errno
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from safetensors.torch import load_file

from cutlayer.cli import main

FAST = ["--epochs", "2", "--batch-size", "16"]


@pytest.fixture
def table(tmp_path):
    """120 rows, three columns and a label that they explain."""
    rng = np.random.default_rng(0)
    a, b, c = rng.normal(size=(3, 120))
    lines = ["id,a,b,c,y"]
    lines += [
        f"{i},{x:.4f},{y:.4f},{z:.4f},{int(x + y + z > 0)}" for i, (x, y, z) in enumerate(zip(a, b, c, strict=True))
    ]
    path = tmp_path / "table.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def said(capsys):
    return capsys.readouterr().err


def run_json(capsys, *arguments):
    code = main([*map(str, arguments), "--json"])
    out, err = capsys.readouterr()
    assert code == 0, err
    return json.loads(out)


def test_digits_undefended_reach_95_percent(capsys):
    record = run_json(capsys, "train", "--data", "digits", "--epochs", "30", "--seed", "0")
    assert record["accuracy"] >= 0.95
    assert record["seconds"] > 0
    assert record["bytes"]["party1"]["received"] == record["bytes"]["party2"]["sent"] > 0
    assert set(record["models"]) == {"party1.bottom", "party1.top", "party2.bottom"}
    assert all(len(digest) == 64 for digest in record["models"].values())
    again = run_json(capsys, "train", "--data", "digits", "--epochs", "30", "--seed", "0")
    assert again["models"] == record["models"]


def test_a_table_of_ones_own(capsys, table):
    record = run_json(
        capsys,
        "train",
        "--table",
        table,
        "--label",
        "y",
        "--party",
        "a=a,b",
        "--party",
        "b=c",
        "--id-column",
        "id",
        *FAST,
    )
    assert set(record["bytes"]) == {"a", "b"} and record["accuracy"] > 0.5


@pytest.mark.parametrize("cut", ["concat", "sum"])
@pytest.mark.parametrize(("parties", "label_party"), [("2", None), ("3", "server"), ("1", "server")])
def test_cuts_and_parties(capsys, cut, parties, label_party):
    extra = ["--label-party", label_party] if label_party else []
    record = run_json(capsys, "train", "--data", "wine", "--parties", parties, "--cut", cut, *extra, *FAST)
    assert len(record["bytes"]) == int(parties) + bool(label_party)


def test_regression(capsys, tmp_path):
    rng = np.random.default_rng(0)
    values = rng.normal(size=(200, 2))
    target = values @ [3.0, -2.0] + 50
    rows = [f"{x:.5f},{y:.5f},{t:.5f}" for (x, y), t in zip(values, target, strict=True)]
    (tmp_path / "r.csv").write_text("\n".join(["x,z,t", *rows]) + "\n")
    arguments = ["train", "--table", tmp_path / "r.csv", "--label", "t", "--party", "a=x", "--party", "b=z"]
    record = run_json(capsys, *arguments, "--epochs", "60", "--batch-size", "16")
    assert record["r2"] > 0.9 and "accuracy" not in record


def test_train_then_attack(capsys, tmp_path):
    out = tmp_path / "run"
    arguments = ["--defence", "gaussian-noise:std=0.01", "--bottom", "mlp:hidden=32", "--top", "mlp", "--valid", "0.1"]
    trained = run_json(capsys, "train", "--data", "breast-cancer", *FAST, "--out", out, *arguments, "--patience", "5")
    assert sorted(p.name for p in out.iterdir()) == ["models", "run.json", "transcript"]
    attacks = ["--attack", "norm-score", "--attack", "model-completion:labels=10"]
    found = run_json(capsys, "attack", out, *attacks, "--out", tmp_path / "findings.csv")
    assert found["accuracy"] == pytest.approx(trained["accuracy"])
    assert [f["metric"] for f in found["findings"]] == ["auc", "accuracy"]
    assert all({"value", "baseline", "low", "high", "granted"} <= set(f) for f in found["findings"])
    assert (tmp_path / "findings.csv").read_text().count("\n") == 3
    again = run_json(capsys, "attack", out, *attacks)
    for finding in (*found["findings"], *again["findings"]):
        assert finding.pop("seconds") >= 0  # a quick attack rounds to 0.000
    assert again == found  # repeatable
    assert main(["attack", str(out), "--attack", "norm-score"]) == 0
    assert "baseline" in capsys.readouterr().out


def test_list(capsys):
    everything = run_json(capsys, "list")
    assert {"attacks", "defences", "cuts", "datasets", "models", "papers"} == set(everything)
    assert {"digits", "mnist"} <= {d["name"] for d in everything["datasets"]}
    assert all(a["about"] and a["by"] and a["target"] and a["needs"] for a in everything["attacks"])
    assert main(["list", "attacks"]) == 0 and "norm-score" in capsys.readouterr().out


def test_people_get_tables_and_pipes_get_no_progress_bar(capsys):
    assert main(["train", "--data", "wine", *FAST]) == 0
    out, err = capsys.readouterr()
    assert "accuracy" in out and "sent" in out and err == ""


@pytest.mark.parametrize(
    "verb", ["train", "attack", "audit", "report", "compare", "reproduce", "list", "bench", "party"]
)
def test_every_verb_teaches(verb, capsys):
    assert main([verb, "--help"]) == 0
    text = capsys.readouterr().out
    assert "Usage" in text and "--json" in text


def test_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.strip() == "0.1.0"


MISTAKES = {
    "unknown dataset": (["--data", "digitz"], "Unknown dataset 'digitz'"),
    "unknown dataset option": (["--data", "digits:colour=red"], "Unknown setting 'colour' of dataset digits"),
    "unknown defence": (["--data", "wine", "--defence", "magic"], "Unknown defence 'magic'"),
    "unknown defence setting": (["--data", "wine", "--defence", "max-norm:a=1"], "Unknown setting 'a'"),
    "bad defence value": (["--data", "wine", "--defence", "gaussian-noise:std=-1"], "std=-1"),
    "unknown option": (["--data", "wine", "--speed", "9"], "No such option"),
    "bad number": (["--data", "wine", "--epochs", "many"], "'--epochs'"),
    "no epochs": (["--data", "wine", "--epochs", "0"], "epochs=0"),
    "bad learning rate": (["--data", "wine", "--lr", "nan"], "lr=nan"),
    "unknown optimiser": (["--data", "wine", "--optimiser", "adma"], "Unknown optimiser 'adma'"),
    "unknown cut": (["--data", "wine", "--cut", "glue"], "Unknown cut 'glue'"),
    "unknown schedule": (["--data", "wine", "--schedule", "stepz"], "Unknown schedule 'stepz'"),
    "unknown bottom": (["--data", "wine", "--bottom", "resnet"], "Unknown bottom 'resnet'"),
    "bottom for images": (["--data", "wine", "--bottom", "lenet"], "Expected images"),
    "unknown top": (["--data", "wine", "--top", "hat"], "Unknown top 'hat'"),
    "unknown keep": (["--data", "wine", "--keep", "some"], "Unknown keep policy 'some'"),
    "no data": ([], "either --data NAME or --table FILE"),
    "both": (["--data", "wine", "--table", "x.csv"], "either --data NAME or --table FILE"),
    "no label": (["--table", "{table}"], "Expected --label"),
    "party for data": (["--data", "wine", "--party", "a=b"], "describe a --table"),
    "unknown coding": (["--table", "{table}", "--label", "y", "--coding", "hot"], "Unknown coding 'hot'"),
    "missing file": (["--table", "nowhere.csv", "--label", "y", "--party", "a=a", "--party", "b=b"], "nowhere.csv"),
    "label absent": (["--table", "{table}", "--label", "z", "--party", "a=a", "--party", "b=b"], "'z'"),
    "party column absent": (["--table", "{table}", "--label", "y", "--party", "a=a", "--party", "b=q"], "'q'"),
    "column twice": (["--table", "{table}", "--label", "y", "--party", "a=a,a", "--party", "b=b"], "'a'"),
    "column in two parties": (["--table", "{table}", "--label", "y", "--party", "a=a", "--party", "b=a,b"], "'a'"),
    "label in a party": (["--table", "{table}", "--label", "y", "--party", "a=a,y", "--party", "b=b"], "'y'"),
    "party twice": (["--table", "{table}", "--label", "y", "--party", "a=a", "--party", "a=b"], "given twice"),
    "party without columns": (["--table", "{table}", "--label", "y", "--party", "a="], "NAME=COLUMN"),
    "one party only": (["--table", "{table}", "--label", "y", "--party", "a=a"], "second party"),
    "odd party name": (["--table", "{table}", "--label", "y", "--party", "../a=a", "--party", "b=b"], "letters"),
    "fewer rows than a batch": (["--data", "wine", "--batch-size", "5000"], "at least one batch of 5000"),
    "no such device": (["--data", "wine", "--device", "tpu"], "device 'tpu'"),
    "patience without validation": (["--data", "wine", "--patience", "3"], "--valid"),
    "bad share": (["--data", "wine", "--valid", "1.5"], "1.5"),
    "negative seed?": (["--data", "wine", "--threads", "0"], "threads=0"),
    "resume without a folder": (["--data", "wine", *FAST, "--resume"], "Expected --out FOLDER"),
    "goal for data": (["--data", "wine", "--goal", "regression"], "describe a --table"),
    "column absent": (["--table", "{table}", "--label", "y", "--without", "idd"], "Did you mean 'id'?"),
    "resume nothing": (["--data", "wine", *FAST, "--out", "{out}", "--resume"], "Expected a checkpoint"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_get_one_sentence_and_exit_2(name, capsys, tmp_path, table):
    arguments, message = MISTAKES[name]
    out = tmp_path / "out"
    words = [word.format(table=table, out=out) for word in arguments]
    code = main(["train", *words, *([] if {"--out", "--resume"} & {*words} else ["--out", str(out)])])
    stdout, err = capsys.readouterr()
    assert code == 2 and stdout == "" and not out.exists()
    assert message in err and err.startswith("cutlayer: ") and err.count("\n") == 1 and "Traceback" not in err


TABLES = {
    "empty": ("", "empty"),
    "header only": ("a,b,y\n", "row"),
    "ragged": ("a,b,y\n1,2,0\n1,2\n" + "3,4,1\n" * 20, "line 3"),
    "duplicated header": ("a,a,y\n" + "1,2,0\n3,4,1\n" * 20, "'a'"),
    "one class": ("a,b,y\n" + "1,2,0\n3,4,0\n" * 20, "at least two different labels"),
    "infinite": ("a,b,y\n" + "1,2,0\n3,4,1\n" * 20 + "inf,2,1\n", "'a'"),
    "label missing in a row": ("a,b,y\n" + "1,2,0\n3,4,1\n" * 20 + "1,2,\n", "'y'"),
}


@pytest.mark.parametrize("name", TABLES)
def test_bad_tables(name, capsys, tmp_path):
    content, message = TABLES[name]
    path, out = tmp_path / "bad.csv", tmp_path / "out"
    path.write_text(content)
    options = ["--label", "y", "--party", "p=a", "--party", "q=b", "--out", str(out), *FAST]
    code = main(["train", "--table", str(path), *options])
    stdout, err = capsys.readouterr()
    assert code == 2 and stdout == "" and not out.exists()
    assert message in err and err.count("\n") == 1


def test_an_existing_out_folder(capsys, tmp_path):
    (tmp_path / "out").mkdir()
    assert main(["train", "--data", "wine", *FAST, "--out", str(tmp_path / "out")]) == 2
    assert "exists already" in capsys.readouterr().err and not list((tmp_path / "out").iterdir())


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
    one = ["attack", str(tmp_path / "run"), "--attack", "model-completion"]
    assert main([*one, "--by", "party1"]) == 2
    assert "model-completion is by a feature party, and party1 holds the labels: use --by party2." in said(capsys)
    assert main([*one, "--out", str(tmp_path / "findings.html")]) == 2
    assert "Expected --out to end in .csv" in said(capsys)
    assert main(["list", "sharks"]) == 2
    assert "Unknown list 'sharks'" in capsys.readouterr().err
    assert main(["bench", "press"]) == 2
    assert "Unknown benchmark 'press'" in capsys.readouterr().err


def test_all_attacks_of_one_party_are_those_of_its_role(capsys, tmp_path, monkeypatch):
    assert main(["train", "--data", "wine", *FAST, "--out", str(tmp_path / "run")]) == 0
    ran = []
    monkeypatch.setattr(
        "cutlayer.auditing.attacking.attack_run", lambda run, attacks, **options: ran.extend(attacks) or []
    )
    assert main(["attack", str(tmp_path / "run"), "--by", "party2"]) == 0
    assert {one.by.value for one in ran} == {"feature party"}


def test_a_goal_and_columns_to_do_without(capsys, tmp_path):
    rows = [f"2020-01-{row % 28 + 1:02},{row % 7},{row % 5},{20 + row}" for row in range(60)]
    (tmp_path / "t.csv").write_text("\n".join(["day,a,b,age", *rows]) + "\n")
    arguments = ["train", "--table", tmp_path / "t.csv", "--label", "age", "--goal", "regression", *FAST]
    record = run_json(capsys, *arguments, "--without", "day")
    assert "r2" in record and record["task"]["without"] == ["day"]


def test_a_party_with_labels_only_is_told(capsys):
    assert main(["train", "--data", "wine", "--label-party", "server", *FAST]) == 0
    assert "note: server holds the labels only, and no columns.\n" in capsys.readouterr().out
    assert main(["train", "--data", "wine", "--label-party", "praty1", *FAST]) == 0
    assert "note: praty1 holds the labels only, and no columns. Did you mean 'party1'?" in capsys.readouterr().out


def test_code_that_a_run_names_is_imported_only_if_trusted(capsys, tmp_path):
    arguments = ["--defence", "tests.test_spec.Mine", "--out", str(tmp_path / "run")]
    assert main(["train", "--data", "wine", *FAST, *arguments]) == 0
    attack = ["attack", str(tmp_path / "run"), "--attack", "model-completion:labels=6"]
    assert main(attack) == 2
    assert "tests.test_spec.Mine" in capsys.readouterr().err
    assert main([*attack, "--trust"]) == 0


def test_a_full_disk(capsys, tmp_path, monkeypatch):
    def full(*args, **kwargs):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("cutlayer.run.save_file", full)
    assert main(["train", "--data", "wine", *FAST, "--out", str(tmp_path / "run")]) == 2
    err = capsys.readouterr().err
    assert "disk is full" in err and err.count("\n") == 1
    assert not (tmp_path / "run/run.json").exists()  # unfinished, and says so
    monkeypatch.undo()
    assert main(["train", "--data", "wine", *FAST, "--out", str(tmp_path / "run"), "--resume"]) == 0


def test_control_c_leaves_a_readable_checkpoint(tmp_path):
    out = tmp_path / "run"
    command = [sys.executable, "-m", "cutlayer", "train", "--data", "wine", "--epochs", "1000000", "--out", str(out)]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"}
    )
    deadline = time.monotonic() + 60
    while not (out / "checkpoint/progress.json").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    stdout, err = process.communicate(timeout=60)
    assert process.returncode == 130 and stdout == ""
    assert "Interrupted" in err and "--resume" in err and "Traceback" not in err
    assert json.loads((out / "checkpoint/progress.json").read_text())["epoch"] >= 1
    assert load_file(out / "checkpoint/party1.safetensors") and not (out / "run.json").exists()
