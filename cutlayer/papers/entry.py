"""Entry: one number of a paper's table, and where ours comes from."""

from collections.abc import Iterable
from dataclasses import dataclass

from cutlayer.papers.job import Job


@dataclass(frozen=True)
class Entry:
    """One number of a table: the job that gives it, what to read off its outcome, and the paper's value."""

    table: str
    dataset: str
    method: str
    setting: str
    job: Job
    read: str = "accuracy"  # see reading.read
    paper: float | None = None
    reading: str = "paper"
    sweep: tuple[Job, ...] = ()  # the jobs that a mean over a method's settings is taken over
    victim: str = ""  # whose secret the table is about, where an attack has several victims


def by_table(entries: Iterable[Entry]) -> dict[str, list[Entry]]:
    """Entries by the table that they stand in."""
    tables: dict[str, list[Entry]] = {}
    for entry in entries:
        tables.setdefault(entry.table, []).append(entry)
    return tables
