"""The whole matrix on one picture: every attack against every setup, for slides and for a first look."""

from collections.abc import Sequence
from pathlib import Path
from typing import IO

import numpy as np
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from cutlayer.finding import Status
from cutlayer.report.cells import MatrixCell, by_setup, matrix
from cutlayer.report.plots import DPI, GREY, INK

SCALE = LinearSegmentedColormap.from_list("leak", ["#FFFFFF", "#FDD49E", "#D55E00", "#7F2704"])
GAPS = {Status.DOES_NOT_APPLY: "·", Status.FAILED: "!", Status.MISSING: "?"}
TURN = 0.55  # from where on a number is white


def overview(cells: Sequence[MatrixCell], path: Path | str | IO[bytes], title: str) -> None:
    """Draw how far every attack gets, in percent of the way from its baseline to perfect.

    Setups go down, with the model's utility after their names; attacks go across, ordered by what they are after.
    """
    setups, lines = matrix(cells)
    figure = Figure(figsize=(4.2 + 0.42 * len(lines), 2.9 + 0.235 * len(setups)), layout="constrained")
    axes = figure.add_subplot()
    heat = np.array([[_heat(line.get(setup)) for _, line in lines] for setup in setups]).reshape(len(setups), -1)
    axes.imshow(heat, cmap=SCALE, vmin=0, vmax=1, aspect="auto")
    for down, setup in enumerate(setups):
        for across, (_, line) in enumerate(lines):
            text = _text(line.get(setup))
            colour = GREY if not text.isdigit() else "white" if heat[down, across] > TURN else INK
            axes.text(across, down, text, ha="center", va="center", fontsize=7, color=colour)
    used = by_setup(cells)
    axes.set_yticks(range(len(setups)), [f"{setup}  {_utility(used[setup])}" for setup in setups], fontsize=8)
    names = [first.attack if len(first.attack) < 34 else first.attack[:31] + "…" for first, _ in lines]
    axes.set_xticks(range(len(lines)), names, rotation=55, ha="left", rotation_mode="anchor", fontsize=8)
    axes.xaxis.tick_top()
    targets = [first.target for first, _ in lines]
    for across in range(1, len(targets)):
        if targets[across] != targets[across - 1]:
            axes.axvline(across - 0.5, color=INK, linewidth=1.5)
    for target in dict.fromkeys(targets):
        middle = np.mean([across for across, named in enumerate(targets) if named == target])
        axes.text(float(middle), len(setups) - 0.2, target, ha="center", va="top", fontsize=9, weight="bold", color=INK)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    note = "Percent of the way from the best guess without the messages (0) to perfect (100); · does not apply. "
    axes.set_xlabel(f"\n\n{note}After a setup's name: the model's utility.", fontsize=8, color=INK)
    axes.set_title(title, fontsize=11, color=INK)
    figure.savefig(path, format="png", dpi=DPI, facecolor="white")


def _heat(cell: MatrixCell | None) -> float:
    return cell.heat if cell is not None and cell.done else 0.0


def _text(cell: MatrixCell | None) -> str:
    if cell is None:
        return ""
    return f"{100 * cell.heat:.0f}" if cell.done else GAPS[cell.status]


def _utility(cells: Sequence[MatrixCell]) -> str:
    known = [cell.accuracy.mean for cell in cells if cell.done and cell.accuracy]
    return f"{known[0]:.3f}" if known else ""
