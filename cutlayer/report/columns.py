"""Which columns leak: an attack's figure per column of its victim, over seeds."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cutlayer.report.advantage import advantage, heat
from cutlayer.report.blocks import Block, Entry, Table, Text, figure, percent
from cutlayer.report.cells import Cell, extras, group, unique
from cutlayer.report.record import Record


@dataclass(frozen=True)
class Column:
    """One column under one attack, mean over seeds."""

    name: str
    value: float
    baseline: float
    gain: float


def columns(record: Record, cell: Cell) -> list[Column]:
    """A cell's columns, the most exposed first."""
    found: dict[str, list[tuple[float, float]]] = {}
    for _, entries in extras(record, cell, "columns"):
        for entry in entries:
            if entry["value"] is not None and entry["baseline"] is not None:
                found.setdefault(str(entry["name"]), []).append((float(entry["value"]), float(entry["baseline"])))
    made = []
    for name, pairs in found.items():
        value, baseline = (sum(side) / len(pairs) for side in zip(*pairs, strict=True))
        made.append(Column(name, value, baseline, advantage(cell.metric, value, baseline)))
    return sorted(made, key=lambda column: (-column.gain, column.name))


def exposed(record: Record, found: Iterable[Cell]) -> str:
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


def blocks(record: Record, found: Sequence[Cell]) -> list[Block]:
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
        what = "lower leaks more" if line[0].metric == "mse" else "higher leaks more"
        caption = f"{line[0].attack}: {line[0].about}. {line[0].metric} per column ({what}), and the way to perfect."
        made.append(Table(caption, head, rows, [line[0].target] * len(rows)))
    return [Text("The most exposed columns of the first setup come first."), *made] if made else []


def table(found: Sequence[Column], metric: str) -> Table:
    """One cell's columns."""
    rows: list[list[Entry]] = [[c.name, c.value, c.baseline, percent(c.gain)] for c in found]
    return Table("Per column, the most exposed first.", ["column", metric, "baseline", "way to perfect"], rows)


def _entry(column: Column | None) -> str:
    return "–" if column is None else f"{figure(column.value)} · {percent(column.gain)}"
