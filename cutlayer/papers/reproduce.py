"""reproduce: run the jobs behind a paper's tables and set the paper's values beside ours."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from importlib import import_module
from pathlib import Path

from cutlayer._validate import one_of
from cutlayer.errors import ConfigError, RunError
from cutlayer.experiment.runner import run_units
from cutlayer.experiment.store import Outcome, Outcomes
from cutlayer.files import write_text
from cutlayer.finding import Status
from cutlayer.metrics.interval import mean_interval
from cutlayer.papers import names
from cutlayer.papers.entry import Entry
from cutlayer.papers.job import Job
from cutlayer.papers.reading import read
from cutlayer.progress import Progress, silent

TableRow = dict[str, str | float | None]


def tables_of(paper: str, quick: bool) -> dict[str, list[Entry]]:
    """The tables and figures of a paper, by name."""
    one_of("paper", paper, names())
    tables: dict[str, list[Entry]] = import_module(f"cutlayer.papers.{paper.replace('-', '_')}.tables").tables(quick)
    return tables


def reproduce(
    paper: str,
    *,
    tables: Iterable[str] = (),
    datasets: Iterable[str] = (),
    seeds: Iterable[int] | None = None,
    quick: bool = False,
    device: str = "cpu",
    workers: int = 1,
    executor: Executor | None = None,
    folder: Path,
    run: bool = True,
    progress: Progress = silent,
) -> dict[str, list[TableRow]]:
    """Run what is missing of a paper's tables, and fill them.

    Without `seeds`, seed 0 is run; where nothing is run, every seed counts that is stored.
    """
    entries = _chosen(tables_of(paper, quick), list(tables), set(datasets))
    store = Outcomes(folder / ("quick.jsonl" if quick else "paper.jsonl"))
    if not run and not store:
        raise ConfigError(f"Expected outcomes in {store.path}, found none: run `cutlayer reproduce {paper}` first.")
    stored = sorted({seed for outcome in store.values() if isinstance(seed := outcome["job"]["seed"], int)})
    numbers = list(seeds) if seeds is not None else [0] if run else stored
    if run:
        run_entries(
            [entry for table in entries.values() for entry in table],
            store,
            numbers,
            device=device,
            workers=workers,
            executor=executor,
            progress=progress,
        )
    return {name: [row(entry, numbers, store) for entry in table] for name, table in entries.items()}


def run_entries(
    entries: Iterable[Entry],
    store: Outcomes,
    seeds: Iterable[int] = (0,),
    *,
    device: str = "cpu",
    workers: int = 1,
    executor: Executor | None = None,
    progress: Progress = silent,
) -> None:
    """Run the jobs behind some entries that are missing in the store.

    What fails does not take the rest along: it is stored as failed, tried again by the next call, and raised at the
    end.
    """
    jobs = _jobs(list(entries), seeds)
    units = [job.unit(device) for job in jobs]
    run_units(units, store, workers=workers, executor=executor, progress=progress, note=_note)
    failed = [store[job.key] for job in jobs if store[job.key]["status"] == Status.FAILED]
    if failed:
        example = f"{failed[0]['key']}: {failed[0]['reason']}"
        raise RunError(f"{len(failed)} of {len(jobs)} trainings failed, such as {example}")


def _chosen(tables: Mapping[str, list[Entry]], wanted: list[str], datasets: set[str]) -> dict[str, list[Entry]]:
    """The entries of some tables and datasets; all, where none are named."""
    for name in wanted:
        one_of("table", name, tables)
    for dataset in datasets:
        one_of("dataset", dataset, dict.fromkeys(entry.dataset for entries in tables.values() for entry in entries))
    chosen = {
        name: [entry for entry in tables[name] if not datasets or entry.dataset in datasets]
        for name in wanted or tables
    }
    return {name: entries for name, entries in chosen.items() if entries}


def _jobs(entries: Sequence[Entry], seeds: Iterable[int]) -> list[Job]:
    """Every job behind some entries, once."""
    every = [replace(job, seed=seed) for seed in seeds for entry in entries for job in entry.sweep or (entry.job,)]
    return list(dict.fromkeys(every))


def _note(outcome: Outcome) -> str:
    job, metrics = outcome["job"], outcome.get("metrics", {})
    return f"{job['data']} {job['defence']} {metrics.get('accuracy', float('nan')):.4f}"


def row(entry: Entry, seeds: list[int], outcomes: Mapping[str, Outcome]) -> TableRow:
    """One line: the paper's value, ours with its interval over seeds, the gap."""
    values = [value for seed in seeds if (value := _mean(entry, seed, outcomes)) is not None]
    mean, low, high = mean_interval(values) if values else (None, None, None)
    if len(values) == 1:
        low = high = None  # one seed says nothing about the spread
    gap = None if mean is None or entry.paper is None else mean - entry.paper
    return {
        "table": entry.table,
        "dataset": entry.dataset,
        "method": entry.method,
        "setting": entry.setting,
        "paper": entry.paper,
        "ours": _digits(mean),
        "low": _digits(low),
        "high": _digits(high),
        "gap": _digits(gap),
        "seeds": len(values),
        "reading": entry.reading,
        "epochs": entry.job.epochs,
        "bottom": entry.job.bottom,
    }


def _mean(entry: Entry, seed: int, outcomes: Mapping[str, Outcome]) -> float | None:
    """An entry's number with one seed: over its sweep the mean, and none if one is missing."""
    total = 0.0
    jobs = [replace(job, seed=seed) for job in entry.sweep or (entry.job,)]
    for job in jobs:
        value = read(outcomes[job.key], entry.read, entry.victim) if job.key in outcomes else None
        if value is None or value != value:
            return None
        total += value
    return total / len(jobs)


def save(rows: Mapping[str, list[TableRow]], folder: Path, command: str) -> list[Path]:
    """Write a CSV per table, with the command that made it in its first line."""
    written = []
    for name, lines in rows.items():
        text = io.StringIO()
        text.write(f"# {command}\n")
        writer = csv.DictWriter(text, list(lines[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)
        path = folder / (name.replace(" ", "-") if name.startswith("figure") else f"table-{name}")
        written.append(path.with_suffix(".csv"))
        write_text(written[-1], text.getvalue())
    return written


def _digits(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
