"""Fill the tables of the pages about papers from results/: `python -m benchmarks.tables hashvfl`.

A table stands between `<!-- table N: dataset, dataset -->` and `<!-- end -->`. Ours comes first, with the
half-width of its 95% interval where there are several seeds, the paper's value in brackets. What follows
a semicolon after the datasets chooses the methods whose names contain it. `<!-- csv FILE: column, column -->`
shows columns of a file of results as they are.
"""

import re
import sys
from pathlib import Path
from typing import Any

from benchmarks import pictures
from benchmarks.results import ROOT, markdown, read_table
from cutlayer.files import write_text
from cutlayer.papers.reproduce import reproduce, save

PAGES = {  # seeds, page, and what else the command says
    "hashvfl": (5, "hashing", " (mnist, cifar10: with --device cuda)"),
    "binary": (3, "binary-columns", ""),
    "sfa": (5, "secure-sum", " (with --device cuda)"),
}
WIDEST = 150  # characters of a line
COUNTS = ("columns exact", "claimed", "Algorithm 1:")  # whole numbers


def cell(row: dict[str, Any]) -> str:
    """Ours with its interval, and the paper's in brackets."""
    if row["ours"] is None:
        return "-"
    counted = any(word in f"{row['method']} {row['setting']}" for word in COUNTS)
    digits = 0 if counted else 3 if abs(row["ours"]) < 5 else 1
    paper = "" if row["paper"] is None else f" ({row['paper']:g})"
    spread = "" if row["low"] is None else f" ± {row['high'] - row['ours']:.{digits}f}"
    return f"{row['ours']:.{digits}f}{spread}{paper}"


def table(rows: list[dict[str, Any]], datasets: list[str]) -> str:
    """One line per dataset and method, one column per setting."""
    rows = [row for row in rows if row["dataset"] in datasets and row["ours"] is not None]
    if not rows:
        return "Not run yet."
    settings = list(dict.fromkeys(row["setting"] for row in rows))
    lines = []
    for dataset in datasets:
        for method in dict.fromkeys(row["method"] for row in rows if row["dataset"] == dataset):
            cells = {r["setting"]: cell(r) for r in rows if r["dataset"] == dataset and r["method"] == method}
            lines.append([dataset, method.replace("|", "\\|"), *(cells.get(s, "") for s in settings)])
    return narrow(["dataset", "method", *(s or "-" for s in settings)], lines)


def narrow(head: list[str], lines: list[list[str]]) -> str:
    """One table, or several where one would be too wide to read; each repeats the first two columns."""
    for count in range(len(head) - 2, 0, -1):
        parts = []
        for start in range(2, len(head), count):
            chosen = slice(start, start + count)
            kept = [[*line[:2], *line[chosen]] for line in lines if any(line[chosen])]
            top = [*head[:2], *head[chosen]]
            parts.append(markdown(top, kept))
        text = "\n\n".join(parts)
        if max(map(len, text.splitlines())) <= WIDEST:
            break
    return text


def fill(page: Path, results: dict[str, list[dict[str, Any]]]) -> None:
    """Write every table that a page asks for."""

    def filled(match: re.Match[str]) -> str:
        name, (datasets, _, part) = match[1], match[2].partition("; ")
        rows = [row for row in results[name] if part in row["method"]]
        if not part and name == "6":
            rows = [row for row in rows if not row["method"].endswith("%")]
        text = table(rows, [dataset.strip() for dataset in datasets.split(",")])
        return f"<!-- table {name}: {match[2]} -->\n\n{text}\n\n<!-- end -->"

    def listed(match: re.Match[str]) -> str:
        columns = [column.strip() for column in match[2].split(",")]
        rows = read_table(match[1].removeprefix("results/"))
        text = markdown(columns, ([row[column] for column in columns] for row in rows))
        return f"<!-- csv {match[1]}: {match[2]} -->\n\n{text}\n\n<!-- end -->"

    text = re.sub(r"<!-- table ([^:]+): ([^>]*?) -->.*?<!-- end -->", filled, page.read_text(), flags=re.S)
    write_text(page, re.sub(r"<!-- csv ([^:]+): ([^>]*?) -->.*?<!-- end -->", listed, text, flags=re.S))


def main() -> None:
    """Fill the page of each paper named (or of all), and write the CSV files beside the outcomes."""
    for paper in sys.argv[1:] or PAGES:
        seeds, page, command = PAGES[paper]
        folder = ROOT / "results" / paper
        results = reproduce(paper, folder=folder, run=False, seeds=range(seeds))
        for name, rows in results.items():
            done = [row for row in rows if row["ours"] is not None]
            which = f"--figure {name.split()[1]}" if name.startswith("figure") else f"--table {name}"
            if done:
                save({name: done}, folder, f"cutlayer reproduce {paper} {which} --seeds {seeds}{command}")
        getattr(pictures, paper)(results, ROOT / f"docs/images/{page}.png")
        fill(ROOT / f"docs/explanation-{page}.md", results)


if __name__ == "__main__":
    main()
