"""The papers behind the attacks and defences, a folder each: what they are, their tables, and checks beside them.

Nothing is listed: a paper is found because its folder lies here and holds `PAPER`. `tables(quick)` in its tables.py
gives the entries of every table.
"""

from dataclasses import dataclass
from importlib import import_module

from cutlayer.exports import folders_in


@dataclass(frozen=True, kw_only=True)
class Paper:
    """A paper and what it contributes."""

    name: str
    title: str
    mechanisms: str


def names() -> list[str]:
    """What the papers are called on the command line; nothing is imported for it."""
    return folders_in("papers")


def papers() -> list[Paper]:
    """Every paper, by name."""
    return [import_module(f"{__name__}.{name.replace('-', '_')}").PAPER for name in names()]
