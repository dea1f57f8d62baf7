"""cutlayer align: find the rows that all parties have in common, and stop there."""

import json
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from cutlayer.cli.deployed import log_line, show_ids


def align(
    file: Annotated[Path, Argument(help="This party's TOML file, the one for `cutlayer party`.", metavar="FILE.toml")],
    insecure: Annotated[bool, Option(help="Without certificates; on this machine's loopback only.")] = False,
    as_json: Annotated[bool, Option("--json", help="Print the counts as JSON.")] = False,
) -> None:
    """Align ids with the other parties, without training: how many rows all have in common.

    Every party starts this with its own file, in any order. Each keeps its own row numbers in its folder, and
    `cutlayer party` with the same file takes them up. What each learns is in docs/explanation-alignment.md.
    """
    from cutlayer.net.party.aligning import align as align_with_others
    from cutlayer.net.party.connection import Connection, Purpose
    from cutlayer.net.party.party_file import read_file

    with Connection(read_file(file), Purpose.ALIGN, insecure=insecure, log=log_line) as connection:
        record = align_with_others(connection)
    if as_json:
        print(json.dumps(record))
        return
    typer.echo(f"rows common to all parties: {record['rows']}")
    show_ids(record["ids"])
