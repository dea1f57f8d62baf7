"""The pictures on the pages about papers, drawn from their results."""

import re
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cutlayer.experiment.store import Outcomes
from cutlayer.papers.binary import tables as papers
from cutlayer.papers.sfa import tables as sfa_paper
from cutlayer.report.plots import COLOURS, MARKERS

Results = dict[str, list[dict[str, Any]]]


def hashvfl(results: Results, path: Path) -> None:
    """Accuracy by code length, ours and the paper's; and who can read labels."""
    figure = Figure(figsize=(11, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    for (dataset, marker), colour in zip((("mnist", "o"), ("cifar10", "s")), COLOURS[:2], strict=True):
        for method, style in (("hash", "-"), ("batch norm, no sign", ":")):
            rows = [r for r in results["8"] if r["dataset"] == dataset and r["method"] == method]
            bits = [int(row["setting"].split()[0]) for row in rows]
            values = [row["ours"] for row in rows]
            left.plot(bits, values, style, marker=marker, color=colour, label=f"{dataset}, {method}")
            if method == "hash":
                paper = [row["paper"] for row in rows]
                left.plot(bits, paper, "--", marker=marker, mfc="white", color=colour, label=f"{dataset}, the paper's")
    left.set_xscale("log", base=2)
    left.set_xticks([4, 8, 16, 32, 64, 128], ["4", "8", "16", "32", "64", "128"])
    left.set(xlabel="bits in a code", ylabel="test accuracy, %", title="Hashing keeps accuracy")
    left.legend(frameon=False, fontsize=8, loc="center", bbox_to_anchor=(0.62, 0.66))
    shown = {
        "own columns only (baseline)": "own columns, 40 labels\n(no message)",
        "undefended, head on the embedding": "undefended,\n40 labels",
        "hash, head on the code": "hash,\n40 labels",
        "hash, nearest target code, no labels": "hash, nearest code,\nno labels at all",
        "hash with private target codes, head on the code": "hash, private codes,\n40 labels",
    }
    for offset, (dataset, hatch) in enumerate((("mnist", ""), ("cifar10", "//"))):
        cells = {r["method"]: r["ours"] for r in results["3"] if r["dataset"] == dataset}
        places = [place + 0.4 * offset for place in range(len(shown))]
        values = [cells[method] for method in shown]
        bars = right.barh(places, values, 0.38, color=COLOURS[offset], hatch=hatch, edgecolor="white", label=dataset)
        right.bar_label(bars, fmt="%.0f", padding=2, fontsize=8)
    right.set_yticks([place + 0.2 for place in range(len(shown))], list(shown.values()), fontsize=8)
    right.invert_yaxis()
    right.set(xlabel="training labels that a feature party names, %", title="and gives labels away", xlim=(0, 108))
    right.legend(frameon=False, fontsize=8, loc="lower right")
    figure.savefig(path, format="png", dpi=120, facecolor="white")


def binary(results: Results, path: Path) -> None:
    """Time against the number of columns; what noise costs and what it hides; loss with and without Masquerade."""
    figure = Figure(figsize=(13, 4.2), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    for method, colour in zip(("naive loop", "meet in the middle", "binary-search"), COLOURS, strict=False):
        rows = [r for r in results["figure 4"] if r["method"] == method and r["ours"] is not None]
        columns = [int(row["setting"].split()[0]) for row in rows]
        left.plot(columns, [row["ours"] for row in rows], marker="o", ms=4, color=colour, label=method)
    left.axhline(3.15e7, color="grey", lw=0.8, ls=":")
    left.text(60, 5e7, "a year", color="grey", fontsize=8)
    left.set(yscale="log", xlabel="columns of the feature party", ylabel="seconds", title="Time to every binary column")
    left.legend(frameon=False, fontsize=8)

    noisy = [f"gaussian-noise:std={sigma}" for sigma in (0.1, 0.2, 0.3, 0.4, 0.5)]
    for dataset, colour in zip(("bank", "credit", "mushroom", "nursery", "covertype"), COLOURS, strict=False):
        cells = {(r["method"], r["setting"]): r["ours"] for r in results["figure 5"] if r["dataset"] == dataset}
        for method, style in (("binary-regression", ":"), ("binary-regression:basis=svd", "-")):
            values = [cells.get((method, defence)) for defence in noisy]
            label = dataset if style == "-" else None
            middle.plot((0.1, 0.2, 0.3, 0.4, 0.5), values, style, marker="o", ms=3, color=colour, label=label)
    middle.set(xlabel="noise on embeddings, sigma", ylabel="rows on which the claimed column is right, %")
    middle.set_title("Noise: Algorithm 2 (dotted: the paper's basis)")
    middle.legend(frameon=False, fontsize=8)

    outcomes = Outcomes(path.parents[2] / "results/binary/paper.jsonl")
    for dataset, colour in zip(("bank", "credit", "mushroom", "nursery"), COLOURS, strict=False):
        for defence, style in (("none", "-"), ("masquerade", "--")):
            outcome = outcomes.get(papers.job(dataset, defence, False).key)
            if outcome:
                label = dataset if defence == "none" else None
                right.plot(outcome["losses"], style, color=colour, lw=1.2, label=label)
    right.set(yscale="log", xlabel="epoch", ylabel="training loss", title="Training (dashed: with Masquerade)")
    right.legend(frameon=False, fontsize=8)
    figure.savefig(path, format="png", dpi=120, facecolor="white")


def sfa(results: Results, path: Path) -> None:
    """Accuracy by parties and by height; GRN's error by height and as it trains, beside guesses that read nothing."""
    figure = Figure(figsize=(11, 8), layout="constrained")
    (parties, height), (error, epochs) = figure.subplots(2, 2)
    styles = {"SplitNN": ("o", COLOURS[2]), "SFA-NN": ("s", COLOURS[1])}
    for method, (marker, colour) in styles.items():
        _line(parties, results["figure 4"], "newsgroups", method, marker=marker, color=colour, label=method)
        for dataset, style in (("newsgroups", "-"), ("fashion-mnist", "--")):
            look = {"marker": marker, "color": colour, "label": f"{method}, {dataset}"}
            _line(height, results["figure 5a"], dataset, method, linestyle=style, **look)
    parties.set(xlabel="parties", ylabel="test accuracy, %", title="News20, by number of parties (figure 4)")
    height.set(xlabel="layers in a bottom", ylabel="test accuracy, %", title="By height of the bottoms (figure 5a)")
    attacks = ["SplitNN", "SplitNN, lr 0.001", *(f"SFA-NN, {name}" for name in sfa_paper.MASKED)]
    for place, (method, colour) in enumerate(zip(attacks, (*COLOURS[2:], COLOURS[1]), strict=False)):
        look = {"marker": MARKERS[place], "color": colour, "label": method}
        _line(error, results["figure 5b"], "fashion-mnist", method, **look)
        _line(epochs, results["grn-epochs"], "fashion-mnist", method, **look)
    for axes in (error, epochs):
        for row in results["figure 5b"]:
            if row["setting"] == "no message read" and row["ours"] is not None:
                axes.axhline(row["ours"], color="grey", lw=0.8, ls=":")
                name = row["method"].partition(" (")[0]
                at = {"xycoords": ("axes fraction", "data"), "ha": "right", "va": "bottom"}
                axes.annotate(name, (1, row["ours"]), fontsize=7, color="grey", **at)
    error.set(xlabel="layers in a bottom", ylabel="mean squared error", title="GRN on Fashion-MNIST (figure 5b)")
    epochs.set(xlabel="epochs of the attack", ylabel="mean squared error", title="GRN as it trains, height 1")
    parties.set_xticks([2, 4, 6, 8])
    for axes in (height, error):
        axes.set_xticks([1, 2, 3, 4, 5])
    for axes in (parties, height, error, epochs):
        if axes.lines:
            axes.legend(frameon=False, fontsize=7, ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.17))
    figure.savefig(path, format="png", dpi=120, facecolor="white")


def _line(axes: Axes, rows: list[dict[str, Any]], dataset: str, method: str, **look: Any) -> None:
    """One method by the number in its settings, with intervals; nothing where nothing has run."""
    points = [r for r in rows if (r["dataset"], r["method"]) == (dataset, method) and r["ours"] is not None]
    if not points:
        return
    places = [int(re.search(r"\d+", row["setting"])[0]) for row in points]  # type: ignore[index]
    spread = [0.0 if row["low"] is None else row["high"] - row["ours"] for row in points]
    axes.errorbar(places, [row["ours"] for row in points], yerr=spread, ms=4, capsize=2, lw=1.2, **look)
