"""cutlayer train, as people use it."""

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
from tests.helpers.command_line import FAST, run_json


def test_digits_undefended_reach_95_percent(capsys):
    record = run_json(capsys, "train", "--data", "digits", "--epochs", "30", "--seed", "0")
    assert record["accuracy"] >= 0.95
    assert record["seconds"] > 0
    assert record["bytes"]["party1"]["received"] == record["bytes"]["party2"]["sent"] > 0
    assert set(record["models"]) == {"party1.bottom", "party1.top", "party2.bottom"}
    assert all(len(digest) == 64 for digest in record["models"].values())
    again = run_json(capsys, "train", "--data", "digits", "--epochs", "30", "--seed", "0")
    assert again["models"] == record["models"]


def test_a_table_of_your_own(capsys, table):
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


def test_people_get_tables_and_pipes_get_no_progress_bar(capsys):
    assert main(["train", "--data", "wine", *FAST]) == 0
    out, err = capsys.readouterr()
    assert "accuracy" in out and "sent" in out and err == ""


def test_an_existing_out_folder(capsys, tmp_path):
    (tmp_path / "out").mkdir()
    assert main(["train", "--data", "wine", *FAST, "--out", str(tmp_path / "out")]) == 2
    assert "exists already" in capsys.readouterr().err and not list((tmp_path / "out").iterdir())


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
