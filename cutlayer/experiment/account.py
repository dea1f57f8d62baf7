"""Account: the record of a study, from the cells that are done: what every report is made of."""

import platform
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from cutlayer.attack import Attack, Target
from cutlayer.data.task import Features, Task
from cutlayer.defence import Role
from cutlayer.experiment.cell import Cell, Cells, cells_of
from cutlayer.experiment.choice import choose
from cutlayer.experiment.study import Study
from cutlayer.report.advantage import capability, heat, of_row
from cutlayer.report.record import COLUMNS, Record
from cutlayer.settings import read_attacks
from cutlayer.version import __version__

THREATS = ("labels", "features", "outcome")


@dataclass(frozen=True)
class Wish:
    """What the user wants of a recommendation."""

    threats: tuple[str, ...] = THREATS
    max_accuracy_loss: float = 2.0  # points


def record_of(study: Study, task: Task, folder: Path, wish: Wish, command: str) -> Record:
    """The record of what is done; what is missing is named."""
    store, rows, extras, missing = Cells(folder), [], dict[str, Any](), []
    said: dict[str, dict[int, Sequence[str]]] = {}  # by setup and seed
    roles = {attack: _roles(task, one) for attack, one in zip(study.attacks, read_attacks(study.attacks), strict=True)}
    for cell in cells_of(study, task):
        outcome = store.read(cell)
        if outcome is None:
            defence, strength = split(cell.setup)
            named = {"defence": defence, "strength": strength, "attack": cell.attack, "seed": cell.seed}
            missing.append(named | roles[cell.attack])
            continue
        if "notes" in outcome:
            said.setdefault(cell.setup, {})[cell.seed] = outcome["notes"]
        for row in outcome["rows"]:
            line = line_of(cell, row, outcome)
            rows.append(line | {key: line[key] or role for key, role in roles[cell.attack].items()})
            if row.get("extras"):
                extras[f"{cell.id}/{row['victim']}"] = row["extras"]
    ideal = [row["accuracy"] for row in rows if row["defence"] == "none" and row["accuracy"] is not None]
    for row in rows:
        if ideal and row["status"] == "done" and row["value"] is not None and row["baseline"] is not None:
            leak = heat(row["metric"], of_row(row))
            score = capability(leak, row["accuracy"], sum(ideal) / len(ideal))
            where = f"{row['cell']}/{row['victim']}"
            extras[where] = {**extras.get(where, {}), "dcs": round(score, 6)}
    return Record(
        title=f"What each party can learn: {task.name}",
        facts=_facts(study, task)
        | {"setup_notes": {setup: seeds for setup, each in said.items() if (seeds := notes_of(each))}},
        rows=rows,
        extras=extras,
        missing=missing,
        choice=choose(rows, wish.threats, wish.max_accuracy_loss),
        command=command or f"cutlayer audit {shlex.quote(str(folder / 'study.toml'))}",
        versions={"cutlayer": __version__, "torch": torch.__version__, "python": platform.python_version()},
    )


def split(setup: str) -> tuple[str, str]:
    """Names and settings of a setup: "hash:bits=8+max-norm" is ("hash+max-norm", "bits=8+")."""
    parts = [part.partition(":") for part in setup.split("+")]
    settings = "+".join(part[2] for part in parts)
    return "+".join(part[0] for part in parts), settings if settings.strip("+") else ""


def notes_of(said: Mapping[int, Sequence[str]]) -> list[str]:
    """What the trainings of a setup said: once where all seeds said it, else with the seed."""
    every = list(dict.fromkeys(note for notes in said.values() for note in notes))
    common = [note for note in every if all(note in notes for notes in said.values())]
    return common + [f"seed {seed}: {note}" for seed, notes in said.items() for note in notes if note not in common]


def line_of(cell: Cell, row: Mapping[str, Any], outcome: Mapping[str, Any]) -> dict[str, Any]:
    """One finding as a line of the record."""
    defence, strength = split(cell.setup)
    line: dict[str, Any] = dict.fromkeys(COLUMNS)
    line |= {"attacker": "", "victim": "", "metric": "", "baseline_name": "", "utility_metric": "", "granted": ""}
    line |= {"detail": "", "paper": "", "reason": ""}
    line |= {key: outcome[key] for key in COLUMNS if key in outcome}
    line |= {key: row[key] for key in COLUMNS if key in row}
    line |= {"defence": defence, "strength": strength, "attack": cell.attack, "seed": cell.seed, "cell": cell.id}
    return {key: None if value != value else value for key, value in line.items()}


def _roles(task: Task, attack: Attack) -> dict[str, str]:
    """Who would have attacked whom, for a cell in which nobody did."""
    label, first = task.label_party, task.feature_parties[0]
    attacker = label if attack.by is Role.LABEL_PARTY else first
    return {"attacker": attacker, "victim": first if attack.target is Target.FEATURES else label}


def _facts(study: Study, task: Task) -> dict[str, Any]:
    return {
        "data": study.data or task.name,
        "sha256": str(task.source.get("sha256", "")),
        "train_rows": len(task.train),
        "test_rows": len(task.test),
        "goal": task.goal.value,
        "classes": list(task.classes),
        "parties": [_holding(name, features) for name, features in task.features.items()],
        "label_party": task.label_party,
        "bottom": study.training.bottom,
        "top": study.training.top,
        "width": study.training.width,
        "cut": study.training.cut,
        "epochs": study.training.epochs,
        "batch_size": study.training.batch_size,
        "optimiser": study.training.optimiser,
        "seeds": list(study.seeds),
        "notes": list(task.notes),
    }


def _holding(name: str, features: Features) -> dict[str, Any]:
    inputs = 1
    for size in features.values.shape[1:]:
        inputs *= size
    return {"name": name, "columns": inputs, "names": [column.name for column in features.columns]}
