"""audit(): every attack against every defence, over seeds; and the Report that holds the findings."""

import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from cutlayer._validate import listed, shown, whole
from cutlayer.attack import Attack, Guess
from cutlayer.auditing.attacking import attack_run
from cutlayer.data.task import Task
from cutlayer.defence import Defence
from cutlayer.errors import ConfigError
from cutlayer.files import write_text
from cutlayer.finding import Finding
from cutlayer.horizontal.federation import Federated
from cutlayer.metrics.interval import mean_interval
from cutlayer.report.html import html
from cutlayer.report.record import COLUMNS, WORDS, Record
from cutlayer.run import Run
from cutlayer.training import train

Setups = Mapping[str, Sequence[Defence]]


@dataclass
class Report:
    """Findings, one row per defence, attack and seed, each beside its baseline and the task's utility."""

    rows: list[dict[str, Any]] = field(default_factory=list)

    def summary(self) -> list[dict[str, Any]]:
        """Mean over seeds per defence and attack, with a 95% interval (over seeds where there are several)."""
        groups: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
        for row in self.rows:
            groups.setdefault((row["defence"], row["attack"], row["victim"]), []).append(row)
        return [_summarise(rows) for rows in groups.values()]

    def to_csv(self) -> str:
        """All rows as CSV, without the figures by name, which differ between attacks."""
        text = io.StringIO()
        columns = [key for key in self.rows[0] if key != "figures"] if self.rows else ["defence", "attack", "seed"]
        writer = csv.DictWriter(text, columns, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(self.rows)
        return text.getvalue()

    def save(self, path: Path | str) -> None:
        """Write the findings: .csv for all rows, .html for a page to look at."""
        path = Path(path)
        if path.suffix not in (".csv", ".html"):
            raise ConfigError(f"Expected a file that ends in .csv or .html, got {path}: name it so.")
        write_text(path, html(self.record()) if path.suffix == ".html" else self.to_csv())

    def record(self) -> Record:
        """The same as plain data, for a report."""
        return Record(title="What each party can learn", rows=[_line(row) for row in self.rows])


def _line(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row as a report wants it: unknown numbers are None, utility has one name."""
    known = {
        **row,
        "accuracy": row["utility"],
        "cell": f"{row['defence']} {row['attack']} {row['seed']}",
        "strength": "",
    }
    found = {key: known.get(key, "" if key in WORDS else None) for key in COLUMNS}
    return {key: None if value != value else value for key, value in found.items()}


def _summarise(rows: list[dict[str, Any]]) -> dict[str, Any]:
    mean = {key: float(np.mean([row[key] for row in rows])) for key in ("value", "baseline", "utility")}
    low, high = rows[0]["low"], rows[0]["high"]
    if len(rows) > 1:
        _, low, high = mean_interval([row["value"] for row in rows])
    return rows[0] | mean | {"low": low, "high": high, "seeds": len(rows)}


def audit(
    task: Task,
    *,
    defences: Setups,
    attacks: Sequence[Attack],
    seeds: Iterable[int] = (0,),
    progress: Callable[[str], None] = lambda text: None,
    trainer: Callable[..., Run | Federated] = train,
    on_run: Callable[[str, int, Any], None] = lambda name, seed, run: None,
    on_guess: Callable[[str, int, Attack, Guess, Finding], None] = lambda name, seed, attack, guess, finding: None,
    **options: Any,
) -> Report:
    """Train once per defence and seed, run every attack on each run, and report. `options` go to `train`, or to
    another `trainer`: `horizontal.federate`."""
    setups, attacks, seeds = _asked(defences, attacks, seeds)
    report = Report()
    for name, chosen in setups.items():
        for seed in seeds:
            progress(f"training with defence {name}, seed {seed}")
            run = trainer(task, defences=chosen, seed=seed, **{"keep": "ends"} | options)
            on_run(name, seed, run)
            utility = "accuracy" if "accuracy" in run.metrics else "r2"
            progress(f"attacking defence {name}, seed {seed}")

            def seen(attack: Attack, guess: Guess, finding: Finding, name: str = name, seed: int = seed) -> None:
                on_guess(name, seed, attack, guess, finding)

            for finding in attack_run(run, attacks, seed=seed, on_guess=seen):
                row = {"defence": name, "seed": seed, **finding.facts()}
                row |= {"utility": run.metrics[utility], "utility_metric": utility}
                row |= {"bytes": sum(t["sent"] for t in run.transcript.traffic().values())}
                report.rows.append(row)
    return report


def _asked(defences: object, attacks: object, seeds: object) -> tuple[Setups, tuple[Attack, ...], tuple[int, ...]]:
    """Check what is to be tried before hours of training."""
    example = "cl.defences.MaxNorm()"
    if not isinstance(defences, Mapping):
        wanted = f"{{'none': [], 'max-norm': [{example}]}}"
        raise ConfigError(f"Expected defences to name each list of defences, as in {wanted}, got {shown(defences)}.")
    if isinstance(seeds, str) or not isinstance(seeds, Iterable):
        raise ConfigError(f"Expected seeds to be a list of whole numbers, such as range(3), got {shown(seeds)}.")
    setups = {name: listed(f"defences[{name!r}]", some, Defence, example) for name, some in defences.items()}
    chosen, numbers = listed("attacks", attacks, Attack, "cl.attacks.ModelCompletion()"), tuple(seeds)
    for what, given in (("defences", setups), ("attacks", chosen), ("seeds", numbers)):
        if not given:
            raise ConfigError(f"Expected {what} to hold at least one to try, got none.")
    for seed in numbers:
        whole("seed", seed)
    return setups, chosen, numbers
