"""The pictures on the pages about papers, drawn from their results."""

from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from cutlayer.report.plots import COLOURS

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
        found = {r["method"]: r["ours"] for r in results["3"] if r["dataset"] == dataset}
        places = [place + 0.4 * offset for place in range(len(shown))]
        values = [found[method] for method in shown]
        bars = right.barh(places, values, 0.38, color=COLOURS[offset], hatch=hatch, edgecolor="white", label=dataset)
        right.bar_label(bars, fmt="%.0f", padding=2, fontsize=8)
    right.set_yticks([place + 0.2 for place in range(len(shown))], list(shown.values()), fontsize=8)
    right.invert_yaxis()
    right.set(xlabel="training labels that a feature party names, %", title="and gives labels away", xlim=(0, 108))
    right.legend(frameon=False, fontsize=8, loc="lower right")
    figure.savefig(path, format="png", dpi=120, facecolor="white")
