"""What people see: progress as a bar or as lines, tables, and JSON for machines."""

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from cutlayer.progress import Progress as OnProgress

REDRAW_SECONDS = 0.1
LINE_SECONDS = 60.0  # between two lines where there is no terminal


@contextmanager
def progress_bar(title: str) -> Iterator[OnProgress]:
    """A progress bar on standard error; where that is no terminal (a log file, CI), a line a minute."""
    console = Console(stderr=True)
    with _bar(title, console) if console.is_terminal else _lines(title) as update:
        yield update


@contextmanager
def _bar(title: str, console: Console) -> Iterator[OnProgress]:
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


@contextmanager
def _lines(title: str) -> Iterator[OnProgress]:
    """A thread says once a minute how far the work is, also while one long step reports nothing."""
    pace, stop = Pace(title), threading.Event()

    def speak() -> None:
        while not stop.wait(LINE_SECONDS):
            print(pace.line(), file=sys.stderr, flush=True)

    thread = threading.Thread(target=speak, daemon=True)
    thread.start()
    try:
        yield pace.update
    finally:
        stop.set()
        thread.join()


class Pace:
    """How far work is, and how long the rest will take at the speed so far. What was done before it began is free."""

    def __init__(self, title: str, clock: Callable[[], float] = time.monotonic) -> None:
        self.title, self.clock, self.begun = title, clock, clock()
        self.first: int | None = None
        self.done = self.total = 0
        self.text = ""

    def update(self, done: int, total: int, text: str) -> None:
        """Note how far it is."""
        self.first = done if self.first is None else self.first
        self.done, self.total, self.text = done, total, text

    def line(self) -> str:
        """The state in one line."""
        elapsed = self.clock() - self.begun
        if not self.total:
            return f"{self.title}: under way for {duration(elapsed)}"
        line = f"{self.title}: {self.done} of {self.total} done after {duration(elapsed)}"
        gained = self.done - (self.first or 0)
        if gained > 0:
            line += f", about {duration(elapsed / gained * (self.total - self.done))} to go"
        return line + (f"; {self.text}" if self.text else "")


def duration(seconds: float) -> str:
    """Seconds in the unit that suits them: 40 s, 12 min, 3 h 20 min."""
    minutes = round(seconds / 60)
    if seconds < 59.5:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a table."""
    printed = Table(title=title, title_justify="left", header_style="bold")
    for number, column in enumerate(columns):
        printed.add_column(
            column, overflow="fold", no_wrap=number == 0 and max((len(str(row[0])) for row in rows), default=0) < 24
        )
    for row in rows:
        printed.add_row(*(figure(cell) for cell in row))
    Console().print(printed)


def figure(cell: object) -> str:
    """A cell as text: numbers with the digits that carry meaning."""
    if isinstance(cell, float):
        return "-" if cell != cell else f"{cell:.4g}"
    return str(cell)


def dump(value: object) -> None:
    """Print one JSON object; what is not a number becomes null."""
    print(json.dumps(_clean(value), indent=2))


def _clean(value: object) -> object:
    if isinstance(value, dict):
        return {key: _clean(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_clean(item) for item in value]
    return None if isinstance(value, float) and value != value else value
