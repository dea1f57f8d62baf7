"""Plots of findings: what a defence costs against what it hides, and what an attacker would see.

Colours are Okabe and Ito's, safe for colour-blind readers, and every series has a marker of its
own: no colour carries a meaning alone. Figures are made without pyplot, so nothing is global.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from math import ceil, isfinite
from pathlib import Path
from textwrap import wrap
from typing import IO, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from numpy.typing import NDArray

from cutlayer.errors import ConfigError
from cutlayer.metrics.forms import measure_named
from cutlayer.metrics.utility import Utility
from cutlayer.report.row import Summary
from cutlayer.setup import setup_of
from cutlayer.spec import name_in

Array = NDArray[np.floating]
Out = Path | str | IO[bytes]

COLOURS = ("#000000", "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
INK, GREY, PALE = "#222222", "#767676", "#E4E4E4"
DPI = 150


def trade_off(rows: Sequence[Summary], path: Out) -> None:
    """Draw utility against leakage, a panel per attack: better defences stand further up and to the left.

    `rows` are those of `Report.summary()`. The baseline is a dashed line (a band, where it differs
    between defences): an attack there learns nothing from what crossed the cut. Bars are intervals.
    """
    threats: dict[tuple[str, str, str], list[Summary]] = {}
    for row in rows:
        if _known(row["value"]) and _known(row["accuracy"]):
            threats.setdefault((str(row.get("task", "")), row["attack"], row["victim"]), []).append(row)
    names = list(dict.fromkeys(setup_of(row).spelling for group in threats.values() for row in group))
    style = {n: (COLOURS[i % len(COLOURS)], MARKERS[i % len(MARKERS)]) for i, n in enumerate(names)}
    across = 2 if len(threats) in (2, 4) else max(1, min(3, len(threats)))
    down = max(1, ceil(len(threats) / across))
    figure = Figure(figsize=(max(5.2, 3.9 * across), 3.6 * down + 0.7), layout="constrained")
    if not threats:
        figure.text(0.5, 0.5, "no attack applied", ha="center", va="center", color=INK)
    short = Counter(name_in(attack) for attack in {attack for _, attack, _ in threats})
    for number, ((_, attack, _), group) in enumerate(threats.items(), start=1):
        heading = name_in(attack) if short[name_in(attack)] == 1 else "\n".join(wrap(attack, 44))
        _panel(figure.add_subplot(down, across, number), heading, group, style)
    if threats:
        handles: list[Any] = [_handle(name, *style[name]) for name in names]
        handles.append(Line2D([], [], color=GREY, linestyle="--", label="baseline: best guess without the view"))
        figure.legend(handles=handles, loc="outside lower center", ncols=across + 1, frameon=False, fontsize=9)
    figure.savefig(path, format="png", dpi=DPI, facecolor="white")


def _known(value: float | None) -> bool:
    return value is not None and isfinite(value)


def _handle(name: str, colour: str, marker: str) -> Line2D:
    return Line2D([], [], color=colour, marker=marker, markersize=8, linestyle="none", label=name)


def _panel(axes: Axes, heading: str, rows: Sequence[Mapping[str, Any]], style: Mapping[str, tuple[str, str]]) -> None:
    first, baselines = rows[0], [row["baseline"] for row in rows]
    if max(baselines) > min(baselines):
        axes.axvspan(min(baselines), max(baselines), color=PALE, zorder=0)
    axes.axvline(float(np.mean(baselines)), color=GREY, linestyle="--", linewidth=1.2, zorder=1)
    for row in rows:
        colour, marker = style[setup_of(row).spelling]
        sides = [[max(0.0, row["value"] - row["low"])], [max(0.0, row["high"] - row["value"])]]
        axes.errorbar(
            row["value"],
            row["accuracy"],
            xerr=sides if isfinite(row["low"]) else None,
            marker=marker,
            color=colour,
            markersize=9,
            markeredgecolor="white",
            capsize=3,
            elinewidth=1.2,
            linestyle="none",
            zorder=3,
        )
    axes.margins(0.16)
    low, high = axes.get_ylim()
    if high - low < 0.1:  # differences of a few rows must not fill the panel
        middle = (low + high) / 2
        low, high = middle - 0.05, middle + 0.05
    axes.set_ylim(low, max(min(high, 1.005), low + 0.02))  # no utility measure exceeds 1
    measure = measure_named(first["metric"])
    if measure.less_is_more:
        axes.invert_xaxis()
    title = f"{first['target']} of {first['victim']}, by {first['attacker']}"
    task = f"{first['task']}: " if first.get("task") else ""
    axes.set_title(f"{task}{title}\n{heading}", fontsize=10, color=INK, loc="left")
    axes.set_xlabel(f"{measure.name} of the attack\nmore leaks →", fontsize=9, color=INK)
    axes.set_ylabel(f"{Utility.title_of(first['utility_metric'])} of the model", fontsize=9, color=INK)
    axes.tick_params(labelsize=8, colors=INK)
    axes.grid(color=PALE, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def reconstructions(
    originals: Array,
    guesses: Mapping[str, Array],
    path: Out,
    *,
    own_columns: int = 0,
    notes: Mapping[str, str] | None = None,
) -> None:
    """Draw originals in the first line and, per defence, what the attacker reconstructed beneath.

    Images are (n, h, w) or (n, h, w, 3) in [0, 1]. If the first `own_columns` pixel columns are the
    attacker's own, a line marks where its guess begins. `notes` add a word to a line, such as its error.
    """
    for name, images in guesses.items():
        if images.shape != originals.shape:
            raise ConfigError(f"Expected guesses {name!r} of shape {originals.shape}, got {images.shape}.")
    lines = {"original": originals, **guesses}
    count = len(originals)
    ratio = originals.shape[1] / originals.shape[2]
    figure = Figure(figsize=(1.9 + 0.78 * count, 0.35 + 0.82 * ratio * len(lines)), layout="constrained")
    grid = figure.subplots(len(lines), count, squeeze=False)
    for line, (name, images) in zip(grid, lines.items(), strict=True):
        for axes, image in zip(line, images, strict=True):
            axes.imshow(image, cmap="gray_r", vmin=0, vmax=1, interpolation="nearest")
            axes.set_xticks([])
            axes.set_yticks([])
            axes.spines[:].set_color(PALE)
            if own_columns:
                axes.axvline(own_columns - 0.5, color=COLOURS[2], linewidth=1.2)
        label = "\n".join([*wrap(name, 22), *(notes or {}).get(name, "").splitlines()])
        line[0].set_ylabel(label, rotation=0, ha="right", va="center", labelpad=8, fontsize=9, color=INK)
    if own_columns:
        text = "the attacker holds what is left of the line; right of it: the truth, then its guesses"
        handles = [Patch(facecolor=COLOURS[2], label=text)]
        figure.legend(handles=handles, loc="outside lower center", frameon=False, fontsize=9, handlelength=0.25)
    figure.savefig(path, format="png", dpi=DPI, facecolor="white")
