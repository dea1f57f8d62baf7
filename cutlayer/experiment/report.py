"""Report: the findings of an audit in Python, as rows, as means over seeds, as a file."""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from cutlayer.errors import ConfigError
from cutlayer.files import write_text
from cutlayer.metrics.interval import mean_interval
from cutlayer.report.html import html
from cutlayer.report.record import Record
from cutlayer.report.row import COLUMNS, read_row

NAN = float("nan")
Line = Mapping[str, Any]  # a row of a report, or the facts of a finding


@dataclass
class Report:
    """Findings, one row per setup, attack, victim and seed, each beside its baseline and the model's accuracy."""

    rows: Sequence[Line] = field(default_factory=list)
    about: Record | None = None  # what else `cutlayer audit` would say of these rows

    def summary(self) -> list[Line]:
        """Mean over seeds per setup, attack and victim, with a 95% interval (over seeds where there are several)."""
        groups: dict[tuple[str, ...], list[Line]] = {}
        for row in self.rows:
            key = tuple(row[name] for name in ("defence", "strength", "attack", "victim"))
            groups.setdefault(key, []).append(row)
        return [_mean(rows) for rows in groups.values()]

    def to_csv(self) -> str:
        """All rows as CSV, without the figures by name, which differ between attacks."""
        text = io.StringIO()
        columns = [key for key in self.rows[0] if key != "figures"] if self.rows else ["defence", "attack", "seed"]
        writer = csv.DictWriter(text, columns, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(self.rows)
        return text.getvalue()

    def save(self, path: Path | str) -> None:
        """Write the findings: .csv for all rows, .html for a page to look at."""
        path = Path(path)
        if path.suffix not in (".csv", ".html"):
            raise ConfigError(f"Expected a file that ends in .csv or .html, got {path}: name it so.")
        write_text(path, html(self.record()) if path.suffix == ".html" else self.to_csv())

    def record(self) -> Record:
        """The same as plain data: the record of `cutlayer audit`."""
        rows = [read_row({key: row[key] for key in COLUMNS}) for row in self.rows]
        return self.about or Record(title="What each party can learn", rows=rows)


def _mean(rows: list[Line]) -> Line:
    means = {key: float(np.mean([_number(row, key) for row in rows])) for key in ("value", "baseline", "accuracy")}
    low, high = _number(rows[0], "low"), _number(rows[0], "high")
    if len(rows) > 1:
        _, low, high = mean_interval([_number(row, "value") for row in rows])
    return {**rows[0], **means, "low": low, "high": high, "seeds": len(rows)}


def _number(row: Line, key: str) -> float:
    return NAN if row[key] is None else float(row[key])
