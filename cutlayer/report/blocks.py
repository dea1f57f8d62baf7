"""What a report is made of, before it is HTML or Markdown: sections of texts, lists, tables and figures."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cutlayer.json_types import Json
from cutlayer.report.advantage import Estimate
from cutlayer.report.cells import MatrixCell

Entry = str | float | int | None


@dataclass(frozen=True)
class Text:
    """A paragraph; `strong` ones carry a verdict or a warning."""

    text: str
    strong: bool = False


@dataclass(frozen=True)
class Items:
    """A list; with `code`, lines to type."""

    items: Sequence[str]
    code: bool = False


@dataclass(frozen=True)
class Table:
    """Figures in lines. `threats` names the threat of each line, for the filter."""

    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[Entry]]
    threats: Sequence[str] = ()
    folded: bool = False


@dataclass(frozen=True)
class Figure:
    """A plot with its data table. `views` are Plotly figures by name, the first is shown first."""

    name: str
    caption: str
    views: Mapping[str, Mapping[str, Json]]
    table: Table
    threat: str = ""


@dataclass(frozen=True)
class Pictures:
    """Originals beside what the attacker made of them."""

    caption: str
    lines: Sequence[tuple[str, Sequence[str]]]  # (what it is, base64 PNGs)
    table: Table
    threat: str = ""


@dataclass(frozen=True)
class Matrix:
    """Attacks against setups. Each line: its heading cell, then a cell (or None) per setup."""

    caption: str
    setups: Sequence[str]
    lines: Sequence[tuple[MatrixCell, Sequence[MatrixCell | None]]]
    details: Mapping[tuple[str, ...], Sequence["Block"]] = field(default_factory=dict)


Block = Text | Items | Table | Figure | Pictures | Matrix


@dataclass(frozen=True)
class Section:
    """One heading and what is under it."""

    name: str
    title: str
    blocks: Sequence[Block]


def figure(value: float | None) -> str:
    """Write a number with the digits that carry meaning."""
    if value is None:
        return "–"
    if isinstance(value, int) or (float(value).is_integer() and abs(value) >= 1e4):
        return f"{int(value):,}"
    return f"{value:.4g}"


def percent(share: float) -> str:
    """Write a share in percent."""
    text = f"{100 * share:.0f}%" if abs(share) >= 0.1 else f"{100 * share:.1f}%"
    return "0%" if text in ("0.0%", "-0.0%") else text


def interval(estimate: Estimate | None) -> str:
    """Write an interval."""
    if estimate is None or estimate.low is None or estimate.high is None:
        return "no interval"
    return f"{figure(estimate.low)} to {figure(estimate.high)}"


def with_interval(estimate: Estimate | None) -> str:
    """Write a mean and its interval."""
    if estimate is None:
        return "–"
    return figure(estimate.mean) + ("" if estimate.low is None else f" ({interval(estimate)})")


def counted(number: int, word: str) -> str:
    """1 seed, 2 seeds."""
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def joined(items: Sequence[str], last: str = "and") -> str:
    """a, b and c."""
    return f" {last} ".join([", ".join(items[:-1]), items[-1]]) if len(items) > 1 else "".join(items)
