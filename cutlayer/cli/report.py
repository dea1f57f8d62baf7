"""cutlayer report: rebuild a study's report from its record."""

from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option


def report(
    study: Annotated[Path, Argument(metavar="STUDY-FOLDER", help="A study folder, with record.json in it.")],
    json: Annotated[bool, Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Write report.html, report.md and findings.csv, .parquet and .json again, from record.json.

    A report of an unfinished study marks what is missing.

    \b
    cutlayer report audits/digits
    """
    from cutlayer.cli import show
    from cutlayer.report.files import write_all
    from cutlayer.report.record import Record

    record = Record.open(study)
    written = write_all(record, study)
    missing = sum(row["status"] == "missing" for row in record.every)
    if json:
        names = [path.name for path in written]
        show.dump({"study": str(study), "findings": len(record.rows), "missing": missing, "files": names})
        return
    if missing:
        typer.echo(
            f"The study is unfinished: {missing} of {len(record.every)} findings are missing; the report says so."
        )
    typer.echo(f"report: {study / 'report.html'}")
