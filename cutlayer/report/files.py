"""All files of a report, each written under a temporary name and renamed: a reader never meets half a file."""

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cutlayer.files import write_bytes
from cutlayer.report.html import html
from cutlayer.report.markdown import markdown
from cutlayer.report.record import NAME, Record
from cutlayer.report.row import CLOCK, COLUMNS, COUNTS, FIGURES

FILES = ("report.html", "report.md", "findings.csv", "findings.parquet", "findings.json", NAME)


def write_all(record: Record, folder: Path | str) -> list[Path]:
    """Write the record, the findings as CSV, Parquet and JSON, and the report; return what was written."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    contents = {
        NAME: record.to_json().encode(),
        "findings.csv": findings_csv(record).encode(),
        "findings.parquet": findings_parquet(record),
        "findings.json": findings_json(record).encode(),
        "report.md": markdown(record).encode(),
        "report.html": html(record).encode(),
    }
    for name, content in contents.items():
        write_bytes(folder / name, content)
    return [folder / name for name in contents]


def columns(*, clock: bool = True) -> Sequence[str]:
    """The findings' columns; without `clock`, those that two equal runs agree in."""
    return [name for name in COLUMNS if clock or name not in CLOCK]


def findings_csv(record: Record, *, clock: bool = True) -> str:
    """One line per finding, in an order that only depends on what was found; unknown numbers are empty."""
    text = io.StringIO()
    writer = csv.DictWriter(text, columns(clock=clock), extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(record.every)
    return text.getvalue()


def findings_json(record: Record) -> str:
    """A list of objects; unknown numbers are null."""
    return json.dumps(record.every, indent=1, allow_nan=False) + "\n"


def findings_parquet(record: Record) -> bytes:
    """The same as Parquet, with the same types whatever the rows."""
    import polars as pl

    types: dict[str, Any] = {
        name: pl.Float64 if name in FIGURES else pl.Int64 if name in COUNTS else pl.String for name in COLUMNS
    }
    out = io.BytesIO()
    pl.DataFrame(record.every, schema=types).write_parquet(out)
    return out.getvalue()
