"""What the commands of a deployed party share: its log on standard error, and the line about its ids."""

import sys
from collections.abc import Mapping

import typer


def log_line(text: str) -> None:
    """Print a line of a party's log, at once."""
    print(f"cutlayer: {text}", file=sys.stderr, flush=True)


def show_ids(counts: Mapping[str, int]) -> None:
    """Say how many of this party's ids can be used."""
    usable, empty, repeated = counts["usable"], counts["empty"], counts["repeated"]
    typer.echo(f"ids here: {usable} usable, {empty} rows without one, {repeated} repeated")
