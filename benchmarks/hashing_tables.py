"""Fill the tables of docs/explanation-hashing.md from results/hashvfl: `python benchmarks/hashing_tables.py`.

A table stands between `<!-- table N: dataset, dataset -->` and `<!-- end -->`. Ours comes first, with the
half-width of its 95% interval where there are several seeds, the paper's value in brackets. `; alarms`
after the datasets of Table VI asks for the detector's rates instead of the distances.
"""

import re
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from cutlayer.papers.reproduce import reproduce, save
from cutlayer.report.plots import COLOURS
from cutlayer.run import write_text

ROOT = Path(__file__).parent.parent
SEEDS = 5
PAGE = ROOT / "docs/explanation-hashing.md"


def cell(row: dict[str, Any]) -> str:
    """Ours with its interval, and the paper's in brackets."""
    if row["ours"] is None:
        return "-"
    digits = 3 if abs(row["ours"]) < 5 else 1
    paper = "" if row["paper"] is None else f" ({row['paper']:g})"
    spread = "" if row["low"] is None else f" ± {row['high'] - row['ours']:.{digits}f}"
    return f"{row['ours']:.{digits}f}{spread}{paper}"


def table(rows: list[dict[str, Any]], datasets: list[str]) -> str:
    """One line per dataset and method, one column per setting."""
    rows = [row for row in rows if row["dataset"] in datasets and row["ours"] is not None]
    if not rows:
        return "Not run yet."
    settings = list(dict.fromkeys(row["setting"] for row in rows))
    lines = [" | ".join(["| dataset", "method", *(s or "-" for s in settings)]) + " |"]
    lines.append("| --- " * (2 + len(settings)) + "|")
    for dataset in datasets:
        for method in dict.fromkeys(row["method"] for row in rows if row["dataset"] == dataset):
            found = {r["setting"]: cell(r) for r in rows if r["dataset"] == dataset and r["method"] == method}
            lines.append(
                " | ".join([f"| {dataset}", method.replace("|", "\\|"), *(found.get(s, "") for s in settings)]) + " |"
            )
    return "\n".join(lines)


def picture(results: dict[str, list[dict[str, Any]]], path: Path) -> None:
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


def main() -> None:
    """Write every table into the page, and the CSV files beside the outcomes."""
    folder = ROOT / "results/hashvfl"
    results = reproduce("hashvfl", folder=folder, run=False, seeds=range(SEEDS))
    done = {name: [row for row in rows if row["ours"] is not None] for name, rows in results.items()}
    for name, rows in done.items():
        if rows:
            which = f"--figure {name.split()[1]}" if name.startswith("figure") else f"--table {name}"
            save(
                {name: rows},
                folder,
                f"cutlayer reproduce hashvfl {which} --seeds {SEEDS} (mnist, cifar10: with --device cuda)",
            )

    picture(results, ROOT / "docs/images/hashing.png")

    def fill(match: re.Match[str]) -> str:
        name, (datasets, _, alarms) = match[1], match[2].partition("; ")
        rows = [row for row in results[name] if name != "6" or bool(alarms) == row["method"].endswith("%")]
        text = table(rows, [part.strip() for part in datasets.split(",")])
        return f"<!-- table {name}: {match[2]} -->\n\n{text}\n\n<!-- end -->"

    write_text(PAGE, re.sub(r"<!-- table ([^:]+): ([^>]*?) -->.*?<!-- end -->", fill, PAGE.read_text(), flags=re.S))


if __name__ == "__main__":
    main()
