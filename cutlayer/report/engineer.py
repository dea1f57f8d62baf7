"""The second half of a report, for those who must act on it: trade-offs, the matrix, images, costs, how to repeat."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from cutlayer.report import columns, costs, figures
from cutlayer.report.blocks import (
    Block,
    Entry,
    Figure,
    Items,
    Matrix,
    Pictures,
    Section,
    Table,
    Text,
    interval,
    joined,
    percent,
    with_interval,
)
from cutlayer.report.cells import MatrixCell, cells_of, estimate, extras, group, matrix, threats
from cutlayer.report.detail import detail
from cutlayer.report.record import Record

COSTS = {
    "step_bytes": "bytes per step",
    "step_seconds": "seconds per step",
    "bytes": "bytes per training",
    "train_seconds": "seconds per training",
}
WORDS = {
    "data": "data",
    "sha256": "sha256 of the data",
    "train_rows": "training rows",
    "test_rows": "test rows",
    "label_party": "party that holds the labels",
    "bottom": "bottom models",
    "top": "top model",
    "width": "numbers in an embedding",
    "batch_size": "rows in a batch",
}
BLANK: tuple[Entry, ...] = (None,) * 6
KEY = ("defence", "strength", "attack", "target", "attacker", "victim")


def sections(record: Record) -> list[Section]:
    """All of the second half; parts that the record holds nothing of are left out."""
    cells = cells_of(record)
    parts = [
        Section("trade-off", "Utility against leakage", trade_offs(cells)),
        Section("matrix", "Every attack against every setup", the_matrix(record, cells)),
        Section("columns", "Which columns leak", [*columns.blocks(record, cells), *together(record, cells)]),
        Section("images", "Originals and reconstructions", pictures(record, cells)),
        Section("roc", "The few who are exposed", curves(record, cells)),
        Section("costs", "Bytes and time", spent(record)),
        Section("cap", "CAP", [table] if (table := costs.cap_table(record, cells)) else []),
        Section("repeat", "To repeat it", repeat(record)),
    ]
    return [section for section in parts if section.blocks]


def trade_offs(cells: Sequence[MatrixCell]) -> list[Block]:
    """A figure per threat."""
    plots: list[Block] = []
    for threat in threats(cells):
        threatening = [cell for cell in cells if cell.target == threat]
        if views := figures.trade_off(threatening):
            caption = (
                f"Threat to {threat}: better setups stand higher and further to the left. Curves join the strengths of "
                "one defence; bars are 95% intervals; at the dashed line an attack learns nothing."
            )
            plots.append(
                Figure(f"trade-off-{threat}", caption, views, listing(threatening, "The same figures."), threat)
            )
    return plots


def listing(cells: Sequence[MatrixCell], caption: str) -> Table:
    """One line per cell."""
    head = ["setup", "attack", "who", "measured by", "figure", "95% interval", "baseline", "way to perfect"]
    head += ["model's utility", "attacker knows"]
    rows: list[list[Entry]] = []
    for cell in cells:
        row: list[Entry] = [cell.setup, cell.attack, cell.about]
        if cell.done:
            row += [cell.metric, cell.value.mean, interval(cell.value), cell.baseline, percent(cell.gain.mean)]
            rows.append([*row, with_interval(cell.accuracy), cell.first["granted"] or "nothing"])
        else:
            reason = f"{cell.status}: {cell.first['reason']}" if cell.first["reason"] else cell.status
            rows.append([*row, reason, *BLANK])
    return Table(caption, head, rows, [cell.target for cell in cells])


def the_matrix(record: Record, cells: Sequence[MatrixCell]) -> list[Block]:
    """The heat map, and the same as a list."""
    if not cells:
        return [Text("There are no findings.")]
    setups, lines = matrix(cells)
    caption = (
        "Each cell: the attack's figure, and beneath it its baseline and how far it got from there to perfect; the "
        "colour says the same. Open a cell for its detail."
    )
    details = {key_of(cell): detail(record, cell) for cell in cells}
    heat_map = Matrix(caption, setups, [(head, [line.get(setup) for setup in setups]) for head, line in lines], details)
    return [heat_map, Table(**{**vars(listing(cells, "All cells as a list.")), "folded": True})]


def key_of(cell: MatrixCell) -> tuple[str, ...]:
    """What tells cells apart."""
    return tuple(str(getattr(cell, key)) for key in KEY)


def together(record: Record, cells: Sequence[MatrixCell]) -> list[Block]:
    """Correlations of columns with each other, in truth and as guessed."""
    views = figures.correlations(record, cells)
    if not views:
        return []
    rows: list[list[Entry]] = []
    names = []
    for cell in cells:
        if known := extras(record, cell, lambda extra: extra.get("correlations")):
            off = [np.abs(np.array(pair["truth"]) - np.array(pair["guess"])).mean() for _, pair in known]
            rows.append([cell.setup, cell.attack, cell.about, float(np.mean(off)), len(known)])
            names.append(cell.target)
    caption = "Correlations of every two columns of the victim, and of what the attacker made of them, of one seed."
    head = ["setup", "attack", "who", "off by, mean over pairs and seeds", "seeds"]
    table = Table("How far guessed correlations are from the true ones.", head, rows, names)
    return [Figure("correlations", caption, views, table, names[0] if len(set(names)) == 1 else "")]


def pictures(record: Record, cells: Sequence[MatrixCell]) -> list[Block]:
    """Per attack and victim: the originals, then a line per setup."""
    blocks: list[Block] = []
    for line in group(cells, lambda cell: (cell.attack, cell.attacker, cell.victim)).values():
        known = [
            (cell, extras(record, cell, lambda extra: extra.get("images"))[0])
            for cell in line
            if extras(record, cell, lambda extra: extra.get("images"))
        ]
        if not known:
            continue
        originals = known[0][1][1]["originals"]
        shown: list[tuple[str, Sequence[str]]] = [("originals", originals)]
        for cell, (_, images) in known:
            if images["originals"] != originals:
                shown.append((f"originals for {cell.setup}", images["originals"]))
            shown.append((cell.setup, images["guesses"]))
        caption = (
            f"{line[0].attack}: {line[0].about}. What the attacker made of the first images, seed {known[0][1][0]}."
        )
        table = listing([cell for cell, _ in known], "Figures over all attacked rows.")
        blocks.append(Pictures(caption, shown, table, line[0].target))
    return blocks


def curves(record: Record, cells: Sequence[MatrixCell]) -> list[Block]:
    """ROC curves, and true positives at few false ones."""
    views = figures.roc(record, [cell for cell in cells if cell.done])
    if not views:
        return []
    head = ["attack", "who", "setup", "true positives at 1% false positives", "at 0.1%", "baselines", "seeds"]
    rows: list[list[Entry]] = []
    names = []
    for cell in cells:
        if known := extras(record, cell, lambda extra: extra.get("roc")):
            hundredth, thousandth = (estimate(curve[key] for _, curve in known) for key in ("tpr_at_1", "tpr_at_01"))
            row = [
                cell.attack,
                cell.about,
                cell.setup,
                with_interval(hundredth),
                with_interval(thousandth),
                "0.01 and 0.001",
            ]
            rows.append([*row, len(known)])
            names.append(cell.target)
    caption = (
        "True-positive rate against false-positive rate, of one seed. Averages hide the few who are exposed: an attack "
        "with a modest AUC may still name some positives without a mistake, which shows at the left."
    )
    table = Table("True positives at few false ones, means and 95% intervals over seeds.", head, rows, names)
    return [Figure("roc", caption, views, table, names[0] if len(set(names)) == 1 else "")]


def spent(record: Record) -> list[Block]:
    """Bytes and seconds."""
    spending = costs.costs(record)
    views = figures.bars(spending, COSTS)
    caption = "What each setup costs: bytes across the cut and seconds, mean over seeds."
    return [Figure("costs", caption, views, costs.table(spending))] if views else []


def repeat(record: Record) -> list[Block]:
    """Configuration, command and versions."""
    rows: list[tuple[str, Entry]] = []
    for key, value in record.facts.items():
        if key == "parties" and isinstance(value, list | tuple):
            rows += [(f"party {_party(party)[0]}", _party(party)[1]) for party in value]
        elif key not in ("notes", "setup_notes"):
            rows.append((WORDS.get(key, key.replace("_", " ")), _spelled(value)))
    blocks: list[Block] = [Items([record.command], code=True)] if record.command else []
    blocks += [Table("What was audited.", ("what", "value"), rows)] if rows else []
    if (notes := record.facts.get("notes")) and isinstance(notes, list | tuple):
        blocks.append(Items([f"Note: {note}" for note in notes]))
    if record.versions:
        blocks.append(Table("Versions.", ("package", "version"), [(k, str(v)) for k, v in record.versions.items()]))
    return blocks


def _party(party: Any) -> tuple[str, str]:
    if not isinstance(party, dict):
        return str(party), ""
    names = party.get("names")
    return str(party.get("name", "")), f"{party.get('columns', '?')} columns" + (f": {joined(names)}" if names else "")


def _spelled(value: Any) -> Entry:
    if isinstance(value, dict):
        return ", ".join(f"{key}: {_spelled(item)}" for key, item in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return value if isinstance(value, int | float) and not isinstance(value, bool) else str(value)
