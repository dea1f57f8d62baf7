"""Records: the numbers that an attacker has about each row of each of its training steps, read from memory maps."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from cutlayer.attacks.tools.replay import Step, replay
from cutlayer.transcript import Scratch
from cutlayer.view import View

Parameters = Literal["all", "difference", "none"]


@dataclass(frozen=True)
class Records:
    """Records of many steps: numbers of each row, and, stored once, those that all rows of a step share."""

    rows: Tensor
    steps: Tensor  # which line of `shared` belongs to a record
    each: Tensor  # gradient, embedding before and after, own columns
    shared: Tensor  # parameters before and after; or their difference; or nothing
    columns: int  # of the attacker's own, last in `each`
    scratch: Scratch | None = None  # holds the files behind the memory maps

    @property
    def width(self) -> int:
        """Numbers in a record."""
        return self.each.shape[1] + self.shared.shape[1]

    def to(self, device: torch.device) -> "Records":
        """The same on a device."""
        moved = [t.to(device) for t in (self.rows, self.steps, self.each, self.shared)]
        return Records(moved[0], moved[1], moved[2], moved[3], self.columns, self.scratch)

    def take(self, chosen: Tensor) -> Tensor:
        """Whole records: gradient, embedding before, after, parameters before, after, own columns."""
        return self.joined(self.each[chosen], self.shared[self.steps[chosen]])

    def joined(self, each: Tensor, shared: Tensor) -> Tensor:
        """Put both kinds of numbers in their order."""
        front = each.shape[-1] - self.columns
        return torch.cat([each[..., :front], shared, each[..., front:]], dim=-1)


def write_records(views: Iterable[View], parameters: Parameters, *, first_only: bool = False) -> Records:
    """Replay runs and write their records to files, which are read through memory maps.

    A gradient is multiplied by its batch's size, since the loss is a mean over the batch.
    """
    scratch, rows, steps = Scratch(), list[Tensor](), list[Tensor]()
    paths = scratch.path / "each", scratch.path / "shared"
    widths, columns = [0, 0], 0
    with paths[0].open("wb") as each, paths[1].open("wb") as shared:
        for step in chain.from_iterable(replay(view, first_only=first_only) for view in views):
            lines, weights = _lines(step), _shared(step, parameters)
            widths, columns = [lines.shape[1], len(weights)], step.inputs[0].numel()
            each.write(lines.contiguous().numpy().data)
            shared.write(weights.numpy().data)
            steps.append(torch.full((len(step.rows),), len(rows)))
            rows.append(step.rows)
    maps = [
        torch.from_numpy(np.memmap(path, np.float32, "c").reshape(-1, width)) if width else torch.empty(len(rows), 0)
        for path, width in zip(paths, widths, strict=True)
    ]
    return Records(torch.cat(rows), torch.cat(steps), maps[0], maps[1], columns, scratch)


def _lines(step: Step) -> Tensor:
    """What is known about each row of a step."""
    parts = (step.gradient.float() * len(step.rows), step.before, step.after, step.inputs.float())
    return torch.cat([part.flatten(1).cpu() for part in parts], dim=1)


def _shared(step: Step, parameters: Parameters) -> Tensor:
    """What is the same for all rows of a step."""
    if parameters == "all":
        return torch.cat([step.weights, step.updated])
    return step.updated - step.weights if parameters == "difference" else torch.empty(0)
