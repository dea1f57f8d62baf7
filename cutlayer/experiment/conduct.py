"""Conduct: do what is missing of a study, in this process or in others."""

from collections.abc import Iterable, Sequence
from concurrent.futures import BrokenExecutor, Executor, as_completed
from pathlib import Path
from typing import Any

from cutlayer.data.task import Task
from cutlayer.errors import ConfigError, RunError
from cutlayer.experiment.account import THREATS, Wish, line_of, record_of
from cutlayer.experiment.cell import Cell, Cells, cells_of
from cutlayer.experiment.choice import options
from cutlayer.experiment.study import Study, read_study
from cutlayer.experiment.work import work
from cutlayer.experiment.workers import pool_of, room_for
from cutlayer.files import write_text
from cutlayer.progress import Progress, silent
from cutlayer.report.record import Record


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
    cells, store = _claim(study, task, folder), Cells(folder)
    jobs = _jobs(cells, store)
    done = len(cells) - sum(len(missing) for missing in jobs.values())
    progress(done, len(cells), "")
    words = study.to_json()
    outcomes: dict[str, Any] = {}
    with pool_of(executor, min(len(jobs), workers or room_for(task))) as pool:
        futures = {
            pool.submit(work, words, setup, seed, [cell.attack for cell in missing]): missing
            for (setup, seed), missing in jobs.items()
        }
        for future in as_completed(futures):
            missing = futures[future]
            try:
                found = future.result()
            except BrokenExecutor as error:
                raise RunError(
                    f"A worker died, perhaps for lack of memory; what is done is in {folder}: the same command goes "
                    "on, with fewer --workers if it happens again."
                ) from error
            for cell, outcome in zip(missing, found.values(), strict=True):
                store.write(cell, outcome)
            done += len(missing)
            progress(done, len(cells), _best_so_far(cells, store, missing, outcomes))
    return record_of(study, task, folder, wish or Wish(), command)


def _jobs(cells: Sequence[Cell], store: Cells) -> dict[tuple[str, int], list[Cell]]:
    """Cells that are missing, by the training that they share."""
    jobs: dict[tuple[str, int], list[Cell]] = {}
    for cell in cells:
        if store.read(cell) is None:
            jobs.setdefault((cell.setup, cell.seed), []).append(cell)
    return jobs


def _claim(study: Study, task: Task, folder: Path) -> list[Cell]:
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
    return cells_of(study, task)


def _best_so_far(cells: Iterable[Cell], store: Cells, new: Iterable[Cell], outcomes: dict[str, Any]) -> str:
    """The setup with the best trade-off among those that are done, for the progress bar."""
    for cell in new:
        outcomes[cell.id] = store.read(cell)
    done = [cell for cell in cells if outcomes.get(cell.id)]
    rows = [line_of(cell, row, outcomes[cell.id]) for cell in done for row in outcomes[cell.id]["rows"]]
    found = options(rows, THREATS)
    if not found:
        return ""
    best = min(found, key=lambda option: option.leakage - option.accuracy)
    return f"best so far: {best.name} ({100 * best.accuracy:.1f}%, leaks {100 * best.leakage:.0f}%)"
