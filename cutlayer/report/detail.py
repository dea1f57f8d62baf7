"""What opens behind a cell of the matrix: everything that is known of one attack under one setup."""

from cutlayer.finding import Roc, Status
from cutlayer.report import columns
from cutlayer.report.advantage import of_row
from cutlayer.report.blocks import (
    Block,
    Entry,
    Pictures,
    Table,
    Text,
    counted,
    figure,
    interval,
    percent,
    with_interval,
)
from cutlayer.report.cells import MatrixCell, extras
from cutlayer.report.record import Record
from cutlayer.report.row import Row

SEED_HEAD = ("seed", "figure", "95% interval", "baseline", "way to perfect", "utility", "seconds", "state", "cell")


def detail(record: Record, cell: MatrixCell) -> list[Block]:
    """Threat model, figure and baseline, seeds, then what the record holds beyond numbers."""
    first = cell.first
    facts: list[tuple[str, Entry]] = [
        ("threat model", cell.about),
        ("setup", cell.setup),
        ("attack", cell.attack),
        ("knowledge granted", first["granted"] or "nothing"),
    ]
    blocks: list[Block] = []
    if cell.done:
        facts += _figures(cell)
    else:
        blocks.append(Text(f"{cell.status}: {first['reason'] or 'no reason is known'}.", strong=True))
    facts += [(name, text) for name, text in (("note", first["detail"]), ("paper", first["paper"])) if text]
    blocks.append(Table("About this cell.", ("what", "value"), facts))
    blocks.append(Table("Per seed.", SEED_HEAD, [_seed(row) for row in cell.rows]))
    if leaks := columns.columns(record, cell):
        blocks.append(columns.table(leaks, cell.metric))
    if curves := extras(record, cell, lambda extra: extra.get("roc")):
        blocks.append(rates(curves))
    if pictures := extras(record, cell, lambda extra: extra.get("images")):
        seed, images = pictures[0]
        lines = [("original", images["originals"]), ("what the attacker made of it", images["guesses"])]
        table = Table("Its figures.", ("metric", "figure", "baseline"), [(cell.metric, cell.value.mean, cell.baseline)])
        blocks.append(Pictures(f"Originals and reconstructions, seed {seed}.", lines, table))
    return blocks


def _figures(cell: MatrixCell) -> list[tuple[str, Entry]]:
    first = cell.first
    utility = first["utility_metric"] or "utility"
    over = "seeds" if len(cell.done) > 1 else "rows or batches of one seed"
    return [
        ("measured by", f"{cell.metric}, {cell.measure.direction}"),
        ("figure", cell.value.mean),
        ("95% interval", f"{interval(cell.value)}, over {over}"),
        ("baseline", cell.baseline),
        ("baseline is", first["baseline_name"]),
        ("way to perfect", _way(cell)),
        ("reading", cell.standing.value),
        ("seeds", f"{counted(len(cell.done), 'seed')} of {len(cell.rows)}"),
        (f"{utility} of the model", with_interval(cell.accuracy)),
    ]


def _way(cell: MatrixCell) -> str:
    gain = cell.gain
    if gain.low is None or gain.high is None:
        return percent(gain.mean)
    return f"{percent(gain.mean)} ({percent(gain.low)} to {percent(gain.high)})"


def _seed(row: Row) -> list[Entry]:
    if row["status"] is not Status.DONE:
        blank: list[Entry] = [None] * 6
        return [row["seed"], *blank, f"{row['status']}{': ' if row['reason'] else ''}{row['reason']}", row["cell"]]
    spread = f"{figure(row['low'])} to {figure(row['high'])}"
    way = percent(of_row(row))
    return [
        row["seed"],
        row["value"],
        spread,
        row["baseline"],
        way,
        row["accuracy"],
        row["seconds"],
        Status.DONE.value,
        row["cell"],
    ]


def rates(curves: list[tuple[int, Roc]]) -> Table:
    """True-positive rates where hardly anyone is accused falsely: averages hide the few who are exposed."""
    head = ("seed", "true positives at 1% false positives", "at 0.1%", "baseline at 1%", "baseline at 0.1%")
    rows = [(seed, curve["tpr_at_1"], curve["tpr_at_01"], 0.01, 0.001) for seed, curve in curves]
    return Table("The few who are exposed.", head, rows)
