"""Conduct: do what is missing of a study, and make its record."""

import shlex
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from pathlib import Path

from cutlayer.data.task import Task
from cutlayer.errors import ConfigError
from cutlayer.experiment.account import THREATS, Wish, facts_of, record_of
from cutlayer.experiment.cell import Cell, cells_of, units_of
from cutlayer.experiment.choice import options
from cutlayer.experiment.lines import lines_of
from cutlayer.experiment.runner import run_units
from cutlayer.experiment.store import Outcome, Outcomes
from cutlayer.experiment.study import Study, read_study
from cutlayer.experiment.workers import room_for
from cutlayer.files import write_text
from cutlayer.progress import Progress, silent
from cutlayer.report.record import Record
from cutlayer.report.row import Row

OUTCOMES = "outcomes.jsonl"


def conduct(
    study: Study,
    folder: Path,
    *,
    workers: int | None = None,
    executor: Executor | None = None,
    wish: Wish | None = None,
    command: str = "",
    progress: Progress = silent,
) -> Record:
    """Do what is missing, cell by cell, and return the record; a second call does nothing."""
    task = study.task()
    _claim(study, folder)
    cells = cells_of(study, task)
    run_units(
        units_of(study, cells),
        Outcomes(folder / OUTCOMES),
        workers=workers or room_for(task),
        executor=executor,
        progress=progress,
        note=_best_so_far(task, cells),
    )
    return study_record(study, folder, task=task, wish=wish, command=command)


def study_record(
    study: Study, folder: Path, *, task: Task | None = None, wish: Wish | None = None, command: str = ""
) -> Record:
    """The record of a study folder, as far as it is done."""
    task = task or study.task()
    return record_of(
        task,
        cells_of(study, task),
        Outcomes(folder / OUTCOMES),
        facts=facts_of(task, study.training, data=study.data, seeds=study.seeds),
        wish=wish,
        command=command or f"cutlayer audit {shlex.quote(str(folder / 'study.toml'))}",
    )


def _claim(study: Study, folder: Path) -> None:
    """Make the study folder, or check that it is of a study of the same data and models."""
    path = folder / "study.toml"
    if folder.exists() and any(folder.iterdir()) and not path.exists():
        raise ConfigError(f"The folder {folder} holds something else than a study; choose another --out.")
    if path.exists():
        before, now = read_study(path).to_json(), study.to_json()
        free = ("defences", "attacks", "seeds", "table")  # these may grow
        other = [key for key in now if key not in free and before[key] != now[key]]
        if other or bool(before["table"]) != bool(now["table"]):
            raise ConfigError(
                f"The folder {folder} is of another study ({', '.join(other) or 'other data'}); choose another --out."
            )
    folder.mkdir(parents=True, exist_ok=True)
    write_text(path, study.to_toml(folder))


def _best_so_far(task: Task, cells: Sequence[Cell]) -> Callable[[Outcome], str]:
    """Names the setup with the best trade-off among those that are done, for the progress bar."""
    by_id = {cell.id: cell for cell in cells}
    rows: list[Row] = []

    def note(outcome: Outcome) -> str:
        rows.extend(line for line, _ in lines_of(task, by_id[outcome["key"]], outcome))
        setups = options(rows, THREATS)
        if not setups:
            return ""
        best = min(setups, key=lambda option: option.leakage - option.accuracy)
        return f"best so far: {best.name} ({100 * best.accuracy:.1f}%, leaks {100 * best.leakage:.0f}%)"

    return note
