"""cutlayer report: rebuild a study's report from its record."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

if TYPE_CHECKING:
    from cutlayer.report.record import Record


def report(
    study: Annotated[Path, Argument(metavar="STUDY-FOLDER", help="A study folder, from `cutlayer audit`.")],
    picture: Annotated[
        Path | None, Option(metavar="FILE.png", help="Also draw the matrix on one picture, for slides.")
    ] = None,
    json: Annotated[bool, Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Write report.html, report.md and findings.csv, .parquet and .json again.

    An audit that was interrupted is reported as far as it came, and what is missing is marked.

    \b
    cutlayer report audits/digits
    cutlayer report audits/digits --picture matrix.png
    """
    from cutlayer.cli import show
    from cutlayer.finding import Status
    from cutlayer.report.files import write_all
    from cutlayer.report.record import NAME, Record

    record = Record.open(study) if (study / NAME).exists() or not (study / "study.toml").exists() else _so_far(study)
    written = write_all(record, study)
    if picture:
        written.append(_draw(record, picture))
    missing = sum(row["status"] is Status.MISSING for row in record.every)
    if json:
        names = [path.name for path in written]
        show.dump({"study": str(study), "findings": len(record.rows), "missing": missing, "files": names})
        return
    if missing:
        typer.echo(
            f"The study is unfinished: {missing} of {len(record.every)} findings are missing; the report says so."
        )
    typer.echo(f"report: {study / 'report.html'}")


def _draw(record: "Record", path: Path) -> Path:
    """The matrix as a picture, written whole or not at all."""
    from io import BytesIO

    from cutlayer.files import write_bytes
    from cutlayer.report.cells import cells_of
    from cutlayer.report.overview import overview

    drawn = BytesIO()
    overview(cells_of(record), drawn, record.title)
    write_bytes(path, drawn.getvalue())
    return path


def _so_far(folder: Path) -> "Record":
    """The record of an audit that has not finished."""
    from cutlayer.experiment.conduct import study_record
    from cutlayer.experiment.study import read_study

    return study_record(read_study(folder / "study.toml"), folder)
