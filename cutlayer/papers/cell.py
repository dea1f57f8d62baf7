"""Cell: one number of a paper's table, and where ours comes from."""

from collections.abc import Iterable
from dataclasses import dataclass

from cutlayer.papers.jobs import Job


@dataclass(frozen=True)
class Cell:
    """One number of a table: the job that gives it, what to read off its outcome, and the paper's value."""

    table: str
    dataset: str
    method: str
    setting: str
    job: Job
    read: str = "accuracy"
    paper: float | None = None
    reading: str = "paper"
    sweep: tuple[Job, ...] = ()  # the jobs that a mean over a method's settings is taken over


def by_table(cells: Iterable[Cell]) -> dict[str, list[Cell]]:
    """Cells by the table that they stand in."""
    made: dict[str, list[Cell]] = {}
    for cell in cells:
        made.setdefault(cell.table, []).append(cell)
    return made
