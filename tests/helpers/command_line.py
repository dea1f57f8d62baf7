"""Calls of the command line that read its JSON, and options that keep them short."""

import json

from cutlayer.cli import main

FAST = ["--epochs", "2", "--batch-size", "16"]


def run_json(capsys, *arguments):
    code = main([*map(str, arguments), "--json"])
    out, err = capsys.readouterr()
    assert code == 0, err
    return json.loads(out)
