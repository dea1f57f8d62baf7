"""cutlayer compare: two studies side by side."""

from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option


def compare(
    first: Annotated[Path, Argument(metavar="A", help="A study folder: before.")],
    second: Annotated[Path, Argument(metavar="B", help="A study folder: after.")],
    out: Annotated[Path | None, Option(help="Write the comparison as a page, compare.html say.")] = None,
    json: Annotated[bool, Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Show which attacks got further or less far, and what it did to utility and bytes.

    Where the 95% intervals of two figures meet, chance alone may explain the difference.

    \b
    cutlayer compare audits/before audits/after --out compare.html
    """
    from cutlayer.cli import show
    from cutlayer.files import write_bytes
    from cutlayer.report import compare as side_by_side
    from cutlayer.report.record import Record

    comparison = side_by_side.compare(Record.open(first), Record.open(second))
    if out is not None:
        write_bytes(out, side_by_side.compare_html(comparison).encode())
    if json:
        show.dump(comparison.to_json())
        return
    columns = ["setup", "attack", "victim", "first", "second", "difference", "intervals meet"]
    show.table("cells in both", columns, [_line(cell) for cell in comparison.cells])
    for table in side_by_side.tables(comparison)[1:]:
        show.table(table.caption, table.head, [["–" if v is None else v for v in row] for row in table.rows])
    typer.echo(side_by_side.summary(comparison) + (f" Page: {out}" if out else ""))


def _line(cell: dict[str, Any]) -> list[Any]:
    ends = [cell[f"value_{side}"] if cell[f"value_{side}"] is not None else cell[f"status_{side}"] for side in "ab"]
    difference = "–" if cell["difference"] is None else cell["difference"]
    meet = {True: "yes", False: "no", None: "–"}[cell["overlap"]]
    return [cell["setup"], cell["attack"], cell["victim"], *ends, difference, meet]
