"""Every verb has a help page, and there is a version."""

import pytest

from cutlayer.cli import main


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
