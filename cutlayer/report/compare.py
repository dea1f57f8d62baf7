"""Two studies side by side, before and after a change say: what moved, by how much, and what only one of them has."""

from dataclasses import dataclass
from typing import Any

from cutlayer.json_types import Json
from cutlayer.report.advantage import Estimate
from cutlayer.report.blocks import Block, Section, Table, Text, counted, figure, interval, percent
from cutlayer.report.cells import MatrixCell, cells_of
from cutlayer.report.costs import costs
from cutlayer.report.engineer import KEY, key_of
from cutlayer.report.html import page, sections
from cutlayer.report.record import Record

Scalar = str | float | bool | None
SIDES = ("a", "b", "difference")
OVERLAP = {True: "yes", False: "no", None: "no interval"}


@dataclass(frozen=True)
class Comparison:
    """What two studies say about the same cells and setups. A change is the second less the first."""

    titles: tuple[str, str]
    cells: list[dict[str, Scalar]]
    only_a: list[dict[str, str]]
    only_b: list[dict[str, str]]
    setups: list[dict[str, Scalar]]

    def to_json(self) -> dict[str, Json]:
        """For machines."""
        return {"a": self.titles[0], "b": self.titles[1]} | {
            name: getattr(self, name) for name in ("cells", "only_a", "only_b", "setups")
        }

    @property
    def moved(self) -> list[dict[str, Scalar]]:
        """Cells whose intervals do not meet."""
        return [cell for cell in self.cells if cell["overlap"] is False]


def compare(a: Record, b: Record) -> Comparison:
    """Match cells by setup, attack, attacker and victim."""
    first, second = ({key_of(cell): cell for cell in cells_of(record)} for record in (a, b))
    both = [_pair(cell, second[key]) for key, cell in first.items() if key in second]
    only_a, only_b = (
        [_named(key) for key in these if key not in those] for these, those in ((first, second), (second, first))
    )
    return Comparison((a.title, b.title), both, only_a, only_b, _setups(a, b))


def _named(key: tuple[str, ...]) -> dict[str, str]:
    return dict(zip(KEY, key, strict=True))


def _pair(a: MatrixCell, b: MatrixCell) -> dict[str, Any]:
    pair: dict[str, Any] = {**_named(key_of(a)), "who": a.about, "setup": a.setup}
    pair |= {"status_a": a.status, "status_b": b.status, "metric": a.metric or b.metric}
    for side, cell in (("a", a), ("b", b)):
        value = cell.value if cell.done else None
        pair |= {
            f"value_{side}": value.mean if value else None,
            f"low_{side}": value.low if value else None,
            f"high_{side}": value.high if value else None,
            f"baseline_{side}": cell.baseline if cell.done else None,
            f"advantage_{side}": cell.gain.mean if cell.done else None,
        }
    alike = bool(a.done and b.done) and a.metric == b.metric
    pair["difference"] = b.value.mean - a.value.mean if alike else None
    pair["advantage_difference"] = b.gain.mean - a.gain.mean if a.done and b.done else None
    pair["overlap"] = overlap(a.value, b.value) if alike else None
    return pair


def overlap(a: Estimate, b: Estimate) -> bool | None:
    """Whether two intervals meet; None where one is lacking."""
    if a.low is None or a.high is None or b.low is None or b.high is None:
        return None
    return a.low <= b.high and b.low <= a.high


def _setups(a: Record, b: Record) -> list[dict[str, Any]]:
    """Utility and bytes of the setups that both have."""
    first, second = costs(a), costs(b)
    entries = []
    for setup in first:
        if setup not in second:
            continue
        entry: dict[str, Any] = {"setup": setup}
        for key in ("accuracy", "bytes"):
            old, new = (_whole(key, side[setup][key]) for side in (first, second))
            difference = None if old is None or new is None else new - old
            entry |= {f"{key}_a": old, f"{key}_b": new, f"{key}_difference": difference}
        entries.append(entry)
    return entries


def _whole(key: str, value: float | None) -> float | int | None:
    return round(value) if value is not None and key == "bytes" else value


def summary(comparison: Comparison) -> str:
    """One sentence."""
    count = len(comparison.moved)
    moved = f"{count} of them with intervals that do not meet" if count else "none with intervals apart"
    return (
        f"{counted(len(comparison.cells), 'cell')} in both, {moved}; {len(comparison.only_a)} only in the first, "
        f"{len(comparison.only_b)} only in the second."
    )


def tables(comparison: Comparison) -> list[Table]:
    """The comparison as tables."""
    head = ["setup", "attack", "who", "measured by", "first", "interval", "second", "interval", "difference"]
    head += ["intervals meet", "baselines", "way to perfect"]
    rows = [_line(cell) for cell in comparison.cells]
    both = Table("Cells in both studies.", head, rows, [str(cell["target"]) for cell in comparison.cells])
    spending = Table(
        "Utility and bytes of the setups in both studies.",
        ["setup", "utility, first", "second", "difference", "bytes, first", "second", "difference"],
        [
            [setup["setup"], *(setup[f"{k}_{s}"] for k in ("accuracy", "bytes") for s in SIDES)]
            for setup in comparison.setups
        ],
    )
    lists = [
        Table(f"Only in the {name} study.", KEY, [[entry[key] for key in KEY] for entry in entries])
        for name, entries in (("first", comparison.only_a), ("second", comparison.only_b))
        if entries
    ]
    return [both, spending, *lists]


def _line(cell: dict[str, Any]) -> list[Any]:
    row = [cell["setup"], cell["attack"], cell["who"], cell["metric"]]
    for side in ("a", "b"):
        value = cell[f"value_{side}"]
        spread = interval(Estimate(0.0, cell[f"low_{side}"], cell[f"high_{side}"])) if value is not None else None
        row += [cell[f"status_{side}"] if value is None else value, spread]
    ways = [None if (way := cell[f"advantage_{side}"]) is None else percent(way) for side in ("a", "b")]
    bases = [figure(cell[f"baseline_{side}"]) for side in ("a", "b")]
    row += [cell["difference"], OVERLAP[cell["overlap"]], " and ".join(bases)]
    return [*row, " and ".join(way or "–" for way in ways)]


def compare_html(comparison: Comparison) -> str:
    """One page that needs nothing else."""
    blocks: list[Block] = [Text(summary(comparison), strong=True), *tables(comparison)]
    title = f"{comparison.titles[0]} and {comparison.titles[1]}, side by side"
    return page(title, template="compare.html", body=sections([Section("compare", "First and second", blocks)]))
