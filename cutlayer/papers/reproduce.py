"""reproduce: run the jobs behind a paper's tables and set the paper's values beside ours."""

import csv
import io
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

from cutlayer._validate import one_of
from cutlayer.files import write_text
from cutlayer.metrics.interval import mean_interval
from cutlayer.papers.cell import Cell
from cutlayer.papers.jobs import Outcome, run_jobs

PAPERS = ("hashvfl", "binary", "sfa", "vflrecon", "fedadob", "fedadob-horizontal")
DETAILS = {
    "exact": r"^(\d+) of",
    "claimed": r"(\d+) claimed",
    "first": r"right on ([\d.]+)%",
    "off": r"off by ([\d.]+)",
}  # in Finding.detail


def tables_of(paper: str, quick: bool) -> dict[str, list[Cell]]:
    """The tables and figures of a paper, by name."""
    one_of("paper", paper, PAPERS)
    made: dict[str, list[Cell]] = import_module(f"cutlayer.papers.{paper.replace('-', '_')}.tables").tables(quick)
    return made


def reproduce(
    paper: str,
    *,
    tables: Iterable[str] = (),
    datasets: Iterable[str] = (),
    seeds: Iterable[int] = (0,),
    quick: bool = False,
    device: str = "cpu",
    workers: int = 1,
    folder: Path,
    run: bool = True,
    progress: Callable[[int, int, str], None] = lambda done, total, text: None,
) -> dict[str, list[dict[str, Any]]]:
    """Run what is missing and return, per table, rows with the paper's value, ours, the gap and the interval."""
    known = tables_of(paper, quick)
    chosen = list(tables) or list(known)
    for name in chosen:
        one_of("table", name, known)
    seeds, only = list(seeds), set(datasets)
    for dataset in only:
        one_of("dataset", dataset, dict.fromkeys(cell.dataset for cells in known.values() for cell in cells))
    cells = {name: found for name in chosen if (found := [c for c in known[name] if not only or c.dataset in only])}
    jobs = [
        replace(job, seed=seed)
        for found in cells.values()
        for seed in seeds
        for cell in found
        for job in cell.sweep or (cell.job,)
    ]
    store = folder / ("quick.jsonl" if quick else "paper.jsonl")
    outcomes = run_jobs(jobs if run else [], store, device=device, workers=workers, progress=progress)
    return {name: [row(cell, seeds, outcomes) for cell in found] for name, found in cells.items()}


def row(cell: Cell, seeds: list[int], outcomes: dict[str, Outcome]) -> dict[str, Any]:
    """One line: the paper's value, ours with its interval over seeds, the gap."""
    values = []
    for seed in seeds:
        found = [outcomes.get(replace(job, seed=seed).key) for job in cell.sweep or (cell.job,)]
        read_off = [None if outcome is None else read(outcome, cell.read) for outcome in found]
        if all(value is not None and value == value for value in read_off):
            values.append(sum(value for value in read_off if value is not None) / len(read_off))
    mean, low, high = mean_interval(values) if values else (None, None, None)
    if len(values) == 1:
        low = high = None  # one seed says nothing about the spread
    gap = None if mean is None or cell.paper is None else mean - cell.paper
    return {
        "table": cell.table,
        "dataset": cell.dataset,
        "method": cell.method,
        "setting": cell.setting,
        "paper": cell.paper,
        "ours": _digits(mean),
        "low": _digits(low),
        "high": _digits(high),
        "gap": _digits(gap),
        "seeds": len(values),
        "reading": cell.reading,
        "epochs": cell.job.epochs,
        "bottom": cell.job.bottom,
    }


def read(outcome: Outcome, what: str) -> float | None:
    """Read a number off an outcome: accuracy, auc, check:NAME or, of the attack NAME, `attack` (its value), `baseline`,
    `seconds`, or a number that its detail names: `exact`, `claimed`, `first`, `off`. Shares in percent. Not so
    `error`, by which guesses are off (squared, or the share of wrong labels), and `cap`, which is that times accuracy;
    `strongest` in place of a name is the attack with the least error."""
    kind, _, name = what.partition(":")
    if "diverged" in outcome:
        return None
    if kind in ("accuracy", "auc"):
        return float(100 * outcome["metrics"][kind])
    if kind in ("error", "cap"):
        off = _error(outcome, name)
        return off if off is None or kind == "error" else float(outcome["metrics"]["accuracy"] * off)
    if kind == "check":
        return None if name not in outcome["checks"] else float(outcome["checks"][name])
    asked = outcome["job"]["attacks"].index(name)
    finding = outcome["findings"][asked]
    if finding["status"] != "done":
        return None
    if kind == "seconds":
        return float(finding["seconds"])
    if kind in DETAILS:
        said = re.search(DETAILS[kind], finding["detail"])
        return float(said[1]) if said else None
    percent = 1 if finding["metric"] == "mse" else 100
    return float(percent * finding["value" if kind == "attack" else "baseline"])


def _error(outcome: Outcome, name: str) -> float | None:
    """By how much an attack's guesses are off; FedAdOb's recovery error."""
    findings = outcome["findings"]
    if name != "strongest":
        findings = [findings[outcome["job"]["attacks"].index(name)]]
    values = [
        one["value"] if one["metric"] == "mse" else 1 - one["value"] for one in findings if one["status"] == "done"
    ]
    return min(values, default=None)


def save(rows: dict[str, list[dict[str, Any]]], folder: Path, command: str) -> list[Path]:
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
