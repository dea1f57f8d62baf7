"""cutlayer align: find the rows that all parties have in common, and stop there."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option


def align(
    file: Annotated[Path, Argument(help="This party's TOML file, the one for `cutlayer party`.", metavar="FILE.toml")],
    insecure: Annotated[bool, Option(help="Without certificates; on this machine's loopback only.")] = False,
    as_json: Annotated[bool, Option("--json", help="Print the counts as JSON.")] = False,
) -> None:
    """Align ids with the other parties, without training: how many rows all have in common.

    Every party starts this with its own file, in any order. Each keeps its own row numbers in its folder, and
    `cutlayer party` with the same file takes them up. What each learns is in docs/explanation-alignment.md.
    """
    from cutlayer.net.party.aligning import Aligning
    from cutlayer.net.party.party_file import read_file

    record = Aligning(read_file(file), insecure=insecure, log=_say).run()
    if as_json:
        print(json.dumps(record))
        return
    ids = record["ids"]
    typer.echo(f"rows common to all parties: {record['rows']}")
    typer.echo(f"ids here: {ids['usable']} usable, {ids['empty']} rows without one, {ids['repeated']} repeated")


def _say(text: str) -> None:
    print(f"cutlayer: {text}", file=sys.stderr, flush=True)
