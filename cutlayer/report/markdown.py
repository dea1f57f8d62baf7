"""A report as Markdown: the same sections and figures, for a repository or a mail."""

import re
from collections.abc import Sequence

from cutlayer.report import engineer, officer
from cutlayer.report.blocks import Block, Entry, Figure, Items, Matrix, Pictures, Table, Text, figure, percent
from cutlayer.report.cells import MatrixCell
from cutlayer.report.record import Record
from cutlayer.version import __version__

SPECIAL = re.compile(r"([\\`*_\[\]<>|#~])")


def markdown(record: Record) -> str:
    """Return the whole text."""
    lines = [f"# {plain(record.title)}", ""]
    lines += ["Every figure stands beside its baseline: the best guess without what crossed the cut.", ""]
    for audience, sections in (
        ("For the privacy officer", officer.sections(record)),
        ("For the engineer", engineer.sections(record)),
    ):
        lines += [f"## {audience}", ""]
        for section in sections:
            lines += [f"### {plain(section.title)}", ""]
            for block in section.blocks:
                lines += [*_block(block), ""]
    lines += [f"cutlayer {__version__}. A simulation: all parties ran in one process.", ""]
    return "\n".join(lines)


def plain(text: str) -> str:
    """Text that Markdown and the HTML within it leave as it is."""
    return SPECIAL.sub(r"\\\1", " ".join(text.split())).replace("\\<", "&lt;").replace("\\>", "&gt;")


def _block(block: Block) -> list[str]:
    match block:
        case Text():
            return [f"**{plain(block.text)}**" if block.strong else plain(block.text)]
        case Items(code=True):
            return [f"    {line}" for item in block.items for line in item.splitlines()]
        case Items():
            return [f"- {plain(item)}" for item in block.items]
        case Table():
            return _table(block.caption, block.head, block.rows)
        case Figure():
            return [plain(block.caption), "", *_block(block.table)]
        case Pictures():
            return [plain(f"{block.caption} The pictures are in report.html."), "", *_block(block.table)]
        case Matrix():
            head = ["attack", *block.setups]
            rows = [[f"{first.attack}: {first.about}", *map(_cell, line)] for first, line in block.lines]
            return _table(block.caption.removesuffix(" Open a cell for its detail."), head, rows)


def _table(caption: str, head: Sequence[str], rows: Sequence[Sequence[Entry]]) -> list[str]:
    lines = [plain(caption), "", _line([plain(text) for text in head]), _line(["---"] * len(head))]
    return lines + [_line([_entry(value) for value in row]) for row in rows]


def _line(entries: Sequence[str]) -> str:
    return f"| {' | '.join(entries)} |"


def _cell(cell: MatrixCell | None) -> str:
    if cell is None:
        return "not part of the study"
    if not cell.done:
        return cell.status
    return f"{figure(cell.value.mean)} vs {figure(cell.baseline)}, {percent(cell.gain.mean)}"


def _entry(value: Entry) -> str:
    return plain(value) if isinstance(value, str) else figure(value)
