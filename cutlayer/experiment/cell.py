"""Cell: one setup, one attack, one seed. Its id is a hash of all that determines it, so nothing is computed twice."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

from cutlayer.attack import Attack
from cutlayer.data.task import Task
from cutlayer.experiment.study import Study
from cutlayer.experiment.unit import Part, PartWords, Unit
from cutlayer.plan import Plan
from cutlayer.settings import read_attacks, settings_of
from cutlayer.setup import Setup, read_setup
from cutlayer.spec import describe
from cutlayer.version import __version__


@dataclass(frozen=True)
class Cell:
    """Where findings come from."""

    setup: Setup
    attack: Attack
    seed: int
    id: str


def cells_of(study: Study, task: Task) -> list[Cell]:
    """Every cell of a study, in order."""
    attacks = read_attacks(study.attacks)
    cells = [
        Cell(read_setup(setup), attack, seed, cell_id(task, study.plan(setup, seed), attack))
        for setup in study.defences
        for seed in study.seeds
        for attack in attacks
    ]
    return list({(cell.setup, cell.id): cell for cell in cells}.values())  # an attack may be spelled in two ways


def cell_id(task: Task, plan: Plan, attack: Attack) -> str:
    """A hash of the data, every setting of the training and of the attack, and the version of cutlayer."""
    facts = {
        "task": {key: value for key, value in task.source.items() if key != "table"},  # its path may change
        "plan": settings_of(plan).to_json(),
        "attack": describe(attack, full=True),
        "cutlayer": __version__,
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode()).hexdigest()[:16]


def units_of(study: Study, cells: Sequence[Cell]) -> list[Unit]:
    """A unit of work for each setup and seed, whose parts are the cells on it."""
    trainings: dict[tuple[Setup, int], list[Part]] = {}
    for cell in cells:
        attack = describe(cell.attack, full=True)
        words: PartWords = {"setup": cell.setup.spelling, "attack": cell.attack.describe(), "seed": cell.seed}
        part = Part(key=cell.id, attacks=(attack,), words=words)
        trainings.setdefault((cell.setup, cell.seed), []).append(part)
    return [
        Unit(
            data=study.data,
            table=study.table,
            valid=study.valid,
            training=replace(study.training.under(setup), seed=seed),
            parts=tuple(parts),
        )
        for (setup, seed), parts in trainings.items()
    ]
