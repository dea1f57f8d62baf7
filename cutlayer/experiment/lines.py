"""Lines: the outcome of a cell as lines of the record, one for each victim."""

from collections.abc import Mapping
from typing import Any

from cutlayer.attack import Attack, Target
from cutlayer.data.task import Task
from cutlayer.defence import Role
from cutlayer.experiment.cell import Cell
from cutlayer.experiment.finding_row import row_without_finding
from cutlayer.experiment.store import Outcome
from cutlayer.finding import Status
from cutlayer.metrics.utility import Utility
from cutlayer.report.record import Extra
from cutlayer.report.row import COLUMNS, WORDS, Row, read_missing, read_row


def lines_of(task: Task, cell: Cell, outcome: Outcome) -> list[tuple[Row, Extra]]:
    """The lines of a cell, each with its extras; a training that did not come about gives one line that says so."""
    rows = [row for victims in outcome.get("attacks", {}).values() for row in victims]
    if not rows:
        rows = [row_without_finding(cell.attack, Status(outcome["status"]), outcome["reason"])]
    return [(_line(task, cell, row, outcome), row.get("extras", Extra())) for row in rows]


def missing_line(task: Task, cell: Cell) -> Row:
    """What is known of a cell that has not run."""
    known = {"attack": cell.attack.describe(), "seed": cell.seed}
    return read_missing(known | _setup_columns(cell) | roles(task, cell.attack))


def roles(task: Task, attack: Attack) -> dict[str, str]:
    """Who would have attacked whom, for a cell in which nobody did."""
    attacker = task.label_party if attack.by is Role.LABEL_PARTY else task.feature_parties[0]
    holders = [name for name in task.features if name != attacker]
    victim = holders[0] if attack.target is Target.FEATURES and holders else task.label_party
    return {"attacker": attacker, "victim": victim}


def _line(task: Task, cell: Cell, row: Mapping[str, object], outcome: Outcome) -> Row:
    line: dict[str, Any] = {key: "" if key in WORDS else None for key in COLUMNS}
    line |= {key: row[key] for key in COLUMNS if key in row} | _costs(outcome)
    line |= {key: line[key] or role for key, role in roles(task, cell.attack).items()}
    return read_row(line | _setup_columns(cell) | {"seed": cell.seed, "cell": cell.id})


def _setup_columns(cell: Cell) -> dict[str, str]:
    return {"defence": cell.setup.names, "strength": cell.setup.strength}


def _costs(outcome: Outcome) -> dict[str, Any]:
    """What the model is worth, and what its training cost."""
    if "metrics" not in outcome:
        return {}
    metric = Utility.ACCURACY if Utility.ACCURACY in outcome["metrics"] else Utility.R2
    sent = sum(traffic["sent"] for traffic in outcome["bytes"].values())
    return {
        "accuracy": outcome["metrics"][metric],
        "utility_metric": metric.value,
        "bytes": sent,
        "step_bytes": round(sent / outcome["steps"]),
        "step_seconds": outcome["train_seconds"] / outcome["steps"],
        "train_seconds": outcome["train_seconds"],
    }
