"""cutlayer predict: what people see when they ask for something impossible."""

import pytest

from cutlayer.cli import main
from tests.helpers.finished_run import write_files, write_tables


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["bank.toml"], "Expected --ids FILE and --out FILE, or --serve"),
        (["bank.toml", "--ids", "bank.csv"], "Expected --ids FILE and --out FILE, or --serve"),
        (["bank.toml", "--serve", "--ids", "a", "--out", "b"], "or --serve"),
        (["bank.toml", "--serve", "--forever"], "--forever at a feature party"),
        (["shop.toml", "--serve"], "it answers only"),
        (["shop.toml"], "train first"),
        (["bank.toml", "--ids", "bank.csv", "--out", "bank.csv"], "another file"),
        (
            ["bank.toml", "--ids", "bank.csv", "--out", "ids.csv"],
            "The file ids.csv exists already; choose another --out.",
        ),
        (["bank.toml", "--ids", "bank.csv", "--out", "nowhere/out.csv"], "a folder that exists"),
        (["bank.toml", "--ids", "none.csv", "--out", "out.csv"], "found none"),
        (["bank.toml", "--ids", "ids.csv", "--out", "out.csv"], "id column 'customer'"),
    ],
)
def test_mistakes_on_the_command_line_are_said_in_one_sentence(tmp_path, monkeypatch, capsys, arguments, says):
    write_tables(tmp_path)
    write_files(tmp_path)
    (tmp_path / "ids.csv").write_text("person\nc1\n")
    monkeypatch.chdir(tmp_path)
    assert main(["predict", *arguments]) == 2
    err = capsys.readouterr().err
    assert says in err and err.count("\n") == 1
