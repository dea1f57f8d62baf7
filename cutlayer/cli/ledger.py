"""cutlayer ledger: check and sum up what a party released."""

import json
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

app = typer.Typer(help="Check what a party released: every message left a line, and lines are chained.")


@app.command()
def verify(
    path: Annotated[Path, Argument(help="A party's run folder, or its ledger.jsonl.")],
    last: Annotated[str | None, Option(help="The hash that the last line had when you wrote it down.")] = None,
    as_json: Annotated[bool, Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Check the chain of a ledger, and sum up what left: to whom, of which kind, how many messages and bytes.

    Changing, removing or moving a line breaks the chain. Cutting lines off the end does not, so write the last
    hash down elsewhere and pass it with --last some other day: it must still stand in the ledger.
    """
    from cutlayer.cli import show
    from cutlayer.errors import RunError
    from cutlayer.net.party import ledger

    file = path / "ledger.jsonl" if path.is_dir() else path
    if not file.exists():
        raise RunError(f"Expected a ledger at {file}, found none; give a party's run folder.")
    messages: Counter[tuple[str, str, str]] = Counter()
    sizes: Counter[tuple[str, str, str]] = Counter()
    defences: list[str] = []
    lines, end, seen = 0, ledger.START, last is None
    for line in ledger.read(file):
        lines, end, seen = lines + 1, line["chain"], seen or line["chain"] == last
        defences = line.get("defences", defences)
        if "kind" in line:
            key = (line["to"], line["phase"], line["kind"])
            messages[key] += 1
            sizes[key] += line["bytes"]
    if not seen:
        raise RunError(f"The hash given with --last does not stand in {file}: lines were cut off its end.")
    if as_json:
        released = [
            {"to": to, "phase": phase, "kind": kind, "messages": count, "bytes": sizes[to, phase, kind]}
            for (to, phase, kind), count in messages.items()
        ]
        print(json.dumps({"lines": lines, "last": end, "defences": defences, "released": released}))
        return
    rows = [(*key, count, sizes[key]) for key, count in messages.items()]
    show.table(f"{file}: {lines} lines, the chain holds", ["to", "phase", "kind", "messages", "bytes"], rows)
    typer.echo(f"defences: {', '.join(defences) or 'none'}")
    typer.echo(f"last line: {end}")
