"""Tables of results: rows in a CSV file under results/, written in one step, after the command that wrote them."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from cutlayer.files import write_text

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results"
DIGITS = 4  # of a fraction


def write_table(name: str, command: str, rows: Sequence[Mapping[str, object]], columns: Iterable[str] = ()) -> None:
    """Write rows, with the columns of the first unless given; what a row lacks stays empty."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(columns) or list(rows[0]), restval="", lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({k: round(float(v), DIGITS) if isinstance(v, float) else v for k, v in row.items()})
    (RESULTS / name).parent.mkdir(parents=True, exist_ok=True)
    write_text(RESULTS / name, f"# python -m benchmarks.{command}\n{text.getvalue()}")


def read_table(name: str) -> list[dict[str, str]]:
    """The rows of a table; none where it was not written yet."""
    if not (RESULTS / name).exists():
        return []
    lines = (RESULTS / name).read_text().splitlines()
    return list(csv.DictReader(line for line in lines if not line.startswith("#")))


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table as Markdown."""
    lines = (head, ["---"] * len(head), *rows)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
