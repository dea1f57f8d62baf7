"""Report: the findings of an audit in Python, as rows, as means over seeds, as a file."""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from cutlayer.errors import ConfigError
from cutlayer.files import write_text
from cutlayer.metrics.interval import mean_interval
from cutlayer.report.html import html
from cutlayer.report.record import Record
from cutlayer.report.row import COLUMNS, Row, Summary, read_row

NAN = float("nan")


@dataclass
class Report:
    """Findings, one row per setup, attack, victim and seed, each beside its baseline and the model's accuracy."""

    rows: Sequence[Row] = field(default_factory=list)
    about: Record | None = None  # what else `cutlayer audit` would say of these rows

    def summary(self) -> list[Summary]:
        """Mean over seeds per setup, attack and victim, with a 95% interval (over seeds where there are several)."""
        groups: dict[tuple[str, ...], list[Row]] = {}
        for row in self.rows:
            key = (row["defence"], row["strength"], row["attack"], row["victim"])
            groups.setdefault(key, []).append(row)
        return [_mean(rows) for rows in groups.values()]

    def to_csv(self) -> str:
        """All rows as CSV."""
        return to_csv(self.rows)

    def save(self, path: Path | str) -> None:
        """Write the findings: .csv for all rows, .html for a page to look at."""
        path = Path(path)
        if path.suffix not in (".csv", ".html"):
            raise ConfigError(f"Expected a file that ends in .csv or .html, got {path}: name it so.")
        write_text(path, html(self.record()) if path.suffix == ".html" else self.to_csv())

    def record(self) -> Record:
        """The same as plain data: the record of `cutlayer audit`."""
        rows = [read_row({key: value for key, value in row.items() if key in COLUMNS}) for row in self.rows]
        return self.about or Record(title="What each party can learn", rows=rows)


def to_csv(rows: Sequence[Mapping[str, object]]) -> str:
    """Rows, or the facts of findings, as CSV, without the figures by name, which differ between attacks."""
    text = io.StringIO()
    columns = [key for key in rows[0] if key != "figures"] if rows else ["defence", "attack", "seed"]
    writer = csv.DictWriter(text, columns, extrasaction="ignore")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _mean(rows: list[Row]) -> Summary:
    values = [_number(row["value"]) for row in rows]
    low, high = _number(rows[0]["low"]), _number(rows[0]["high"])
    if len(rows) > 1:
        _, low, high = mean_interval(values)
    return {
        **rows[0],
        "value": float(np.mean(values)),
        "baseline": float(np.mean([_number(row["baseline"]) for row in rows])),
        "accuracy": float(np.mean([_number(row["accuracy"]) for row in rows])),
        "low": low,
        "high": high,
        "seeds": len(rows),
    }


def _number(value: float | None) -> float:
    return NAN if value is None else float(value)
