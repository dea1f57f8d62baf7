"""Predictions: the outputs of the top in words, probabilities of named classes or a number in its own units."""

from collections.abc import Sequence

import torch

from cutlayer.net.party.finished_run import FinishedRun
from cutlayer.net.predict.label_side import Answer

NO_ID = "(no id)"
Cell = str | float | None


def numbers_of(answer: Answer, run: FinishedRun) -> list[float]:
    """Probabilities of the classes, or the number in its own units."""
    assert answer.outputs is not None
    if run.classes:
        probabilities: list[float] = torch.softmax(answer.outputs.double(), dim=0).tolist()
        return probabilities
    return [float(answer.outputs[0]) * run.spread + run.mean]


def columns_of(answers: Sequence[Answer], run: FinishedRun) -> dict[str, list[Cell]]:
    """Named columns: a probability per class and the likeliest class, or a number; None where it is unknown."""
    rows = [None if answer.outputs is None else numbers_of(answer, run) for answer in answers]
    if not run.names:
        return {"predicted": [None if row is None else row[0] for row in rows]}
    columns: dict[str, list[Cell]] = {
        f"probability_{name}": [None if row is None else row[place] for row in rows]
        for place, name in enumerate(run.names)
    }
    columns["predicted"] = [None if row is None else run.names[row.index(max(row))] for row in rows]
    return columns
