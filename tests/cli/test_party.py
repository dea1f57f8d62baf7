"""cutlayer party and the root command: what people see before, and when they stop it."""

import json

import pytest
import torch

from cutlayer.cli import main
from cutlayer.net.party.training import Training
from tests.helpers.finished_run import write_files, write_tables


@pytest.fixture
def folder(tmp_path, monkeypatch):
    write_tables(tmp_path)
    write_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_check_says_how_many_ids_are_usable(folder, capsys):
    (folder / "bank.csv").write_text((folder / "bank.csv").read_text() + ",1,2,3,yes\n")
    assert main(["party", "bank.toml", "--check", "--insecure"]) == 0
    out, err = capsys.readouterr()
    assert out == "ids here: 280 usable, 1 rows without one, 0 repeated\n" and "bank.toml is in order" in err
    assert main(["party", "bank.toml", "--check", "--insecure", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["ids"] == {"usable": 280, "empty": 1, "repeated": 0}


@pytest.mark.parametrize("salt", ["", 'salt = "short"\n'])
@pytest.mark.parametrize("options", [["--check"], []])
def test_a_file_without_a_salt_is_refused_before_anything_is_written(folder, capsys, salt, options):
    lines = (folder / "bank.toml").read_text().splitlines(keepends=True)
    (folder / "bank.toml").write_text("".join(salt if line.startswith("salt") else line for line in lines))
    before = sorted(folder.iterdir())
    assert main(["party", "bank.toml", "--insecure", *options]) == 2
    err = capsys.readouterr().err
    assert "Expected `salt` in [run] of bank.toml" in err and err.count("\n") == 1
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize("steps", [(), (7, 14)])
def test_control_c_says_how_to_go_on_where_there_is_a_checkpoint(folder, capsys, monkeypatch, steps):
    def stopped(training):
        for step in steps:
            training.folder.save(step, {"w": torch.zeros(1)}, {})
        raise KeyboardInterrupt

    monkeypatch.setattr(Training, "run", stopped)
    assert main(["party", "bank.toml", "--insecure"]) == 130
    err = capsys.readouterr().err
    assert err.startswith("cutlayer: Interrupted.") and err.count("\n") == 1
    assert ("of step 14, is in bank-run: start this again" in err) == bool(steps)


@pytest.mark.parametrize(("arguments", "near"), [(["trian"], "'train'"), (["keys", "sgin"], "'sign'")])
def test_a_misspelt_command_is_answered_with_one_suggestion(capsys, arguments, near):
    assert main(arguments) == 2
    err = capsys.readouterr().err
    assert err == f"cutlayer: No such command '{arguments[-1]}'. Did you mean {near}?\n"


@pytest.mark.parametrize("arguments", [[], ["keys"]])
def test_a_bare_command_shows_help_and_no_error(capsys, arguments):
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert "Usage" in out + err and "cutlayer: " not in err


def test_help_says_when_a_rehearsal_gives_the_same_models(capsys):
    assert main(["party", "--help"]) == 0
    assert "seed" in capsys.readouterr().out
