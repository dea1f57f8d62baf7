"""Cell: one setup, one attack, one seed. Its id is a hash of all that determines it, so nothing is computed twice."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cutlayer.data.task import Task
from cutlayer.experiment.study import Study
from cutlayer.files import write_text
from cutlayer.settings import read_attacks, settings_of
from cutlayer.spec import describe
from cutlayer.version import __version__


@dataclass(frozen=True)
class Cell:
    """Where a finding comes from."""

    setup: str
    attack: str
    seed: int
    id: str


def cells_of(study: Study, task: Task) -> list[Cell]:
    """Every cell of a study, in order."""
    return list(_cells(study, task))


def _cells(study: Study, task: Task) -> Iterator[Cell]:
    spelt = dict(zip(study.attacks, read_attacks(study.attacks), strict=True))
    source = {key: value for key, value in task.source.items() if key != "table"}  # a path may change, its sha256 not
    for setup in study.defences:
        for seed in study.seeds:
            plan = settings_of(study.plan(setup, seed)).to_json()
            for attack in study.attacks:
                facts = {
                    "task": source,
                    "plan": plan,
                    "attack": describe(spelt[attack], full=True),
                    "cutlayer": __version__,
                }
                text = json.dumps(facts, sort_keys=True, default=str)
                yield Cell(setup, attack, seed, hashlib.sha256(text.encode()).hexdigest()[:16])


class Cells:
    """The cells of a study folder that are done: one JSON file each, written under another name and renamed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "cells"

    def read(self, cell: Cell) -> dict[str, Any] | None:
        """A cell's outcome, if it is there and whole."""
        try:
            found: dict[str, Any] = json.loads(self._path(cell).read_text())
        except (FileNotFoundError, json.JSONDecodeError):
            return None
        return found

    def write(self, cell: Cell, outcome: dict[str, Any]) -> None:
        """Keep a cell's outcome."""
        self.folder.mkdir(parents=True, exist_ok=True)
        write_text(self._path(cell), json.dumps(outcome))

    def _path(self, cell: Cell) -> Path:
        return self.folder / f"{cell.id}.json"
