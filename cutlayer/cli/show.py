"""What people see: progress bars that vanish when piped, tables, and JSON for machines."""

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from cutlayer.progress import Progress as OnProgress

REDRAW_SECONDS = 0.1


@contextmanager
def progress_bar(title: str) -> Iterator[OnProgress]:
    """A progress bar on standard error while it is a terminal; nothing otherwise."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda done, total, text: None
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task, drawn = bar.add_task(title, total=None, note=""), 0.0

        def update(done: int, total: int, text: str) -> None:
            nonlocal drawn
            if (now := time.monotonic()) - drawn > REDRAW_SECONDS or done == total:
                drawn = now
                bar.update(task, completed=done, total=total, note=text)

        yield update


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a table."""
    made = Table(title=title, title_justify="left", header_style="bold")
    for number, column in enumerate(columns):
        made.add_column(
            column, overflow="fold", no_wrap=number == 0 and max((len(str(row[0])) for row in rows), default=0) < 24
        )
    for row in rows:
        made.add_row(*(figure(cell) for cell in row))
    Console().print(made)


def figure(cell: object) -> str:
    """Spell a cell: numbers with the digits that carry meaning."""
    if isinstance(cell, float):
        return "-" if cell != cell else f"{cell:.4g}"
    return str(cell)


def dump(value: Any) -> None:
    """Print one JSON object; what is not a number becomes null."""
    print(json.dumps(_clean(value), indent=2))


def _clean(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _clean(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_clean(item) for item in value]
    return None if isinstance(value, float) and value != value else value
