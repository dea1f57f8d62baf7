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
    found: dict[str, list[tuple[float, float]]] = {}
    for _, entries in extras(record, cell, "columns"):
        for entry in entries:
            if entry["value"] is not None and entry["baseline"] is not None:
                found.setdefault(str(entry["name"]), []).append((float(entry["value"]), float(entry["baseline"])))
    made = []
    for name, pairs in found.items():
        value, baseline = (sum(side) / len(pairs) for side in zip(*pairs, strict=True))
        made.append(ColumnLeak(name, value, baseline, advantage(cell.metric, value, baseline)))
    return sorted(made, key=lambda column: (-column.gain, column.name))


def exposed(record: Record, found: Iterable[MatrixCell]) -> str:
    """The column that leaks most, in a sentence; nothing if no attack looked at columns or none leaks."""
    pairs = [(column, cell) for cell in found for column in columns(record, cell)]
    if not pairs:
        return ""
    column, cell = max(pairs, key=lambda pair: heat(pair[1].metric, pair[0].gain))
    if column.gain <= 0 or cell.harmless:
        return ""
    return (
        f"The most exposed column without a defence is {column.name} of {cell.victim} ({cell.attack}: {cell.metric} "
        f"{figure(column.value)}, baseline {figure(column.baseline)}, {percent(column.gain)} of the way to perfect)."
    )


def blocks(record: Record, found: Sequence[MatrixCell]) -> list[Block]:
    """A table per attack and victim: columns in lines, setups across."""
    made: list[Block] = []
    for line in group(found, lambda cell: (cell.attack, cell.attacker, cell.victim)).values():
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
        first = line[0]
        what = f"{first.metric} per column ({first.measure.direction})"
        caption = f"{first.attack}: {first.about}. {what}, and the way to perfect."
        made.append(Table(caption, head, rows, [line[0].target] * len(rows)))
    return [Text("The most exposed columns of the first setup come first."), *made] if made else []


def table(found: Sequence[ColumnLeak], metric: str) -> Table:
    """One cell's columns."""
    rows: list[list[Entry]] = [[c.name, c.value, c.baseline, percent(c.gain)] for c in found]
    return Table("Per column, the most exposed first.", ["column", metric, "baseline", "way to perfect"], rows)


def _entry(column: ColumnLeak | None) -> str:
    return "–" if column is None else f"{figure(column.value)} · {percent(column.gain)}"
