"""Account: the record of an audit, from the cells that are done: what every report is made of."""

import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import torch

from cutlayer.data.task import Features, Task
from cutlayer.experiment.cell import Cell
from cutlayer.experiment.choice import choose
from cutlayer.experiment.lines import lines_of, missing_line
from cutlayer.experiment.store import Outcome
from cutlayer.finding import Status, Target
from cutlayer.json_types import Json
from cutlayer.report.advantage import capability, heat, of_row
from cutlayer.report.record import Extra, Record
from cutlayer.report.row import Row
from cutlayer.settings import Settings
from cutlayer.setup import setup_of
from cutlayer.version import __version__

THREATS = tuple(target.value for target in Target)
SHOWN = ("bottom", "top", "width", "cut", "epochs", "batch_size", "optimiser")  # settings among the facts


@dataclass(frozen=True)
class Wish:
    """What the user wants of a recommendation."""

    threats: tuple[str, ...] = THREATS
    max_accuracy_loss: float = 2.0  # points


def record_of(
    task: Task,
    cells: Iterable[Cell],
    outcomes: Mapping[str, Outcome],
    *,
    facts: Mapping[str, Json],
    wish: Wish | None = None,
    command: str = "",
) -> Record:
    """The record of the cells that are done; those that are missing are named."""
    rows: list[Row] = []
    missing: list[Row] = []
    extras: dict[str, Extra] = {}
    notes: dict[str, dict[int, Sequence[str]]] = {}  # by setup and seed
    for cell in cells:
        outcome = outcomes.get(cell.id)
        if outcome is None:
            missing.append(missing_line(task, cell))
            continue
        if "notes" in outcome:
            notes.setdefault(cell.setup.spelling, {})[cell.seed] = outcome["notes"]
        for line, extra in lines_of(task, cell, outcome):
            rows.append(line)
            if extra:
                extras[f"{cell.id}/{line['victim']}"] = extra
    wish = wish or Wish()
    return Record(
        title=f"What each party can learn: {task.name}",
        facts={**facts, "setup_notes": {setup: text for setup, seeds in notes.items() if (text := notes_of(seeds))}},
        rows=rows,
        extras=_with_capability(rows, extras),
        missing=missing,
        choice=choose(rows, wish.threats, wish.max_accuracy_loss),
        command=command,
        versions={"cutlayer": __version__, "torch": torch.__version__, "python": platform.python_version()},
    )


def _with_capability(rows: Sequence[Row], extras: Mapping[str, Extra]) -> dict[str, Extra]:
    """Extras, and how well a defence keeps both secret and accuracy, for every figure."""
    ideal = [row["accuracy"] for row in rows if setup_of(row).is_open and row["accuracy"] is not None]
    scores: dict[str, Extra] = {}
    for row in rows:
        if ideal and row["status"] is Status.DONE and row["accuracy"] is not None:
            leak = heat(row["metric"], of_row(row))
            score = capability(leak, row["accuracy"], sum(ideal) / len(ideal))
            scores[f"{row['cell']}/{row['victim']}"] = {"dcs": round(score, 6)}
    return {place: {**extras.get(place, {}), **scores.get(place, {})} for place in {**extras, **scores}}


def notes_of(seeds: Mapping[int, Sequence[str]]) -> list[str]:
    """The notes of a setup's trainings: once where all seeds have it, else with the seed."""
    every = list(dict.fromkeys(note for notes in seeds.values() for note in notes))
    common = [note for note in every if all(note in notes for notes in seeds.values())]
    return common + [f"seed {seed}: {note}" for seed, notes in seeds.items() for note in notes if note not in common]


def facts_of(task: Task, training: Settings, *, data: str = "", seeds: Sequence[int]) -> dict[str, Json]:
    """What is audited: the data, who holds what, the model and its training."""
    words = training.to_json()
    return {
        "data": data or task.name,
        "sha256": str(task.source.get("sha256", "")),
        "train_rows": len(task.train),
        "test_rows": len(task.test),
        "goal": task.goal.value,
        "classes": list(task.classes),
        "parties": [_holding(name, features) for name, features in task.features.items()],
        "label_party": task.label_party,
        **{key: words[key] for key in SHOWN},
        "seeds": list(seeds),
        "notes": list(task.notes),
    }


def _holding(name: str, features: Features) -> dict[str, Json]:
    columns = [column.name for column in features.columns]
    return {"name": name, "columns": prod(features.values.shape[1:]), "names": columns}
