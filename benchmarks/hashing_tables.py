"""Fill the tables of docs/explanation-hashing.md from results/hashvfl: `python benchmarks/hashing_tables.py`.

A table stands between `<!-- table N: dataset, dataset -->` and `<!-- end -->`. Ours comes first, the
paper's value in brackets.
"""

import re
from pathlib import Path
from typing import Any

from cutlayer.papers.reproduce import reproduce, save
from cutlayer.run import write_text

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs/explanation-hashing.md"


def cell(row: dict[str, Any]) -> str:
    """Ours, and the paper's in brackets."""
    if row["ours"] is None:
        return "-"
    digits = 3 if abs(row["ours"]) < 5 else 1
    paper = "" if row["paper"] is None else f" ({row['paper']:g})"
    return f"{row['ours']:.{digits}f}{paper}"


def table(rows: list[dict[str, Any]], datasets: list[str]) -> str:
    """One line per dataset and method, one column per setting."""
    rows = [row for row in rows if row["dataset"] in datasets and row["ours"] is not None]
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


def main() -> None:
    """Write every table into the page, and the CSV files beside the outcomes."""
    folder = ROOT / "results/hashvfl"
    results = reproduce("hashvfl", folder=folder, run=False)
    done = {name: [row for row in rows if row["ours"] is not None] for name, rows in results.items()}
    save({name: rows for name, rows in done.items() if rows}, folder, "cutlayer reproduce hashvfl --table N")

    def fill(match: re.Match[str]) -> str:
        name, datasets = match[1], [part.strip() for part in match[2].split(",")]
        return f"<!-- table {name}: {match[2]} -->\n\n{table(results[name], datasets)}\n\n<!-- end -->"

    write_text(PAGE, re.sub(r"<!-- table ([^:]+): ([^>]*?) -->.*?<!-- end -->", fill, PAGE.read_text(), flags=re.S))


if __name__ == "__main__":
    main()
