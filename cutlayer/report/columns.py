"""Which columns leak: an attack's figure per column of its victim, over seeds."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cutlayer.report.advantage import advantage, heat
from cutlayer.report.blocks import Block, Entry, Table, Text, figure, percent
from cutlayer.report.cells import MatrixCell, extras, group, unique
from cutlayer.report.record import Record


@dataclass(frozen=True)
class ColumnLeak:
    """One column under one attack, mean over seeds."""

    name: str
    value: float
    baseline: float
    gain: float


def columns(record: Record, cell: MatrixCell) -> list[ColumnLeak]:
    """A cell's columns, the most exposed first."""
    pairs_by_name: dict[str, list[tuple[float, float]]] = {}
    for _, entries in extras(record, cell, lambda extra: extra.get("columns")):
        for entry in entries:
            if entry["value"] is not None and entry["baseline"] is not None:
                pairs_by_name.setdefault(str(entry["name"]), []).append(
                    (float(entry["value"]), float(entry["baseline"]))
                )
    leaks = []
    for name, pairs in pairs_by_name.items():
        value, baseline = (sum(side) / len(pairs) for side in zip(*pairs, strict=True))
        leaks.append(ColumnLeak(name, value, baseline, advantage(cell.metric, value, baseline)))
    return sorted(leaks, key=lambda column: (-column.gain, column.name))


def exposed(record: Record, cells: Iterable[MatrixCell]) -> str:
    """The column that leaks most, in a sentence; nothing if no attack looked at columns or none leaks."""
    pairs = [(column, cell) for cell in cells for column in columns(record, cell)]
    if not pairs:
        return ""
    column, cell = max(pairs, key=lambda pair: heat(pair[1].metric, pair[0].gain))
    if column.gain <= 0 or cell.harmless:
        return ""
    return (
        f"The most exposed column without a defence is {column.name} of {cell.victim} ({cell.attack}: {cell.metric} "
        f"{figure(column.value)}, baseline {figure(column.baseline)}, {percent(column.gain)} of the way to perfect)."
    )


def blocks(record: Record, cells: Sequence[MatrixCell]) -> list[Block]:
    """A table per attack and victim: columns in lines, setups across."""
    tables: list[Block] = []
    for line in group(cells, lambda cell: (cell.attack, cell.attacker, cell.victim)).values():
        known = {cell.setup: {c.name: c for c in columns(record, cell)} for cell in line}
        known = {setup: entries for setup, entries in known.items() if entries}
        if not known:
            continue
        setups = list(known)
        names = unique(name for entries in known.values() for name in entries)
        rows: list[list[Entry]] = []
        for name in names:
            bases = [known[setup][name].baseline for setup in setups if name in known[setup]]
            rows.append([name, sum(bases) / len(bases), *(_entry(known[setup].get(name)) for setup in setups)])
        head = ["column", "baseline, mean", *setups]
        first = next(cell for cell in line if cell.setup in known)  # others may not apply, and have no measure
        what = f"{first.metric} per column ({first.measure.direction})"
        caption = f"{first.attack}: {first.about}. {what}, and the way to perfect."
        tables.append(Table(caption, head, rows, [first.target] * len(rows)))
    return [Text("The most exposed columns of the first setup come first."), *tables] if tables else []


def table(leaks: Sequence[ColumnLeak], metric: str) -> Table:
    """One cell's columns."""
    rows: list[list[Entry]] = [[leak.name, leak.value, leak.baseline, percent(leak.gain)] for leak in leaks]
    return Table("Per column, the most exposed first.", ["column", metric, "baseline", "way to perfect"], rows)


def _entry(column: ColumnLeak | None) -> str:
    return "–" if column is None else f"{figure(column.value)} · {percent(column.gain)}"
