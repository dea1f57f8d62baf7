"""A finding as a row of plain data, with what there is to look at: columns by name, pictures as PNG."""

import base64
import io
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutlayer.attack import Attack
from cutlayer.data.task import Task
from cutlayer.docstring import read_docstring
from cutlayer.finding import Finding, FindingFacts, PerColumn, Shown, Status
from cutlayer.report.record import Extra, Images, NamedColumn


class FindingRow(FindingFacts, total=False):
    """A finding, and what a report can show of it; of an attack that gave none, only why."""

    extras: Extra
    paper: str


def finding_row(task: Task, attack: Attack, finding: Finding) -> FindingRow:
    """What the judge found, the paper that the attack is from, and extras that a report can show."""
    given, extras = finding.extras, Extra()
    if "columns" in given:
        extras["columns"] = _named_columns(task, finding.victim, given["columns"])
    if "roc" in given:
        extras["roc"] = given["roc"]
    if "correlations" in given:
        extras["correlations"] = given["correlations"]
    if "shown" in given:
        extras["images"] = _pictures(given["shown"])
    return {**finding.facts(), "extras": extras, "paper": _paper(attack)}


def row_without_finding(attack: Attack, status: Status, reason: str) -> FindingRow:
    """The row of an attack that gave no finding, and why."""
    return {"attack": attack.describe(), "target": attack.target.value, "status": status.value, "reason": reason}


def _named_columns(task: Task, victim: str, columns: PerColumn) -> list[NamedColumn]:
    held = task.features.get(victim)
    names = [] if held is None else [column.name for column in held.columns]
    return [
        {"name": names[place] if names else f"input {place}", "value": value, "baseline": baseline}
        for place, value, baseline in zip(columns["places"], columns["value"], columns["baseline"], strict=True)
    ]


def _pictures(shown: Shown) -> Images:
    truth, guess = np.array(shown["truth"]), np.array(shown["guess"])
    low, high = float(truth.min()), float(truth.max())
    return {
        "originals": [_png(picture, low, high) for picture in truth],
        "guesses": [_png(picture, low, high) for picture in guess],
    }


def _paper(attack: Attack) -> str:
    return read_docstring(type(attack)).labelled.get("Paper", "").rstrip(".")


def _png(values: NDArray[Any], low: float, high: float) -> str:
    """A picture (channels, height, width) as PNG, in base64."""
    from PIL import Image

    scaled = np.clip((values - low) / ((high - low) or 1.0) * 255, 0, 255).astype(np.uint8)
    picture = Image.fromarray(scaled[0]) if len(scaled) != 3 else Image.fromarray(scaled.transpose(1, 2, 0))
    file = io.BytesIO()
    picture.save(file, "PNG")
    return base64.b64encode(file.getvalue()).decode()
