"""Setup: the defences, and perhaps a cut, that a model is trained under; the one reader of setups as text.

A setup is written in two ways: as one word, `hash:bits=8+max-norm`, and in a row of findings as two columns, names
`hash+max-norm` and settings `bits=8+`. Both are read here only, without torch, because a report opens without it.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache

from cutlayer.spec import describe, numbers_in, spell, split_spelling

NONE = "none"  # the name of no defence
JOIN = re.compile(r"\+(?!\d)")  # between parts, not in an exponent
LABEL = re.compile(r":|\+(?!\d)")  # a name that holds one of these is a label of the user's own


@dataclass(frozen=True)
class Setup:
    """Names with their settings, in order. Without a defence, its only part is `none`."""

    parts: tuple[tuple[str, str], ...]

    @property
    def spelling(self) -> str:
        """As the command line has it; the settings of a label stand in brackets where a colon would mislead."""
        return "+".join(
            f"{name} ({settings})" if settings and LABEL.search(name) else spell(name, settings)
            for name, settings in self.parts
        )

    @property
    def names(self) -> str:
        """The column `defence` of a row."""
        return "+".join(name for name, _ in self.parts)

    @property
    def strength(self) -> str:
        """The column `strength` of a row: settings joined as the names are, empty where no part has any."""
        return "+".join(settings for _, settings in self.parts) if any(settings for _, settings in self.parts) else ""

    @property
    def is_open(self) -> bool:
        """Whether there is nothing but `none`."""
        return all(part == (NONE, "") for part in self.parts)

    @property
    def order(self) -> tuple[float, ...]:
        """The numbers among the settings, by which strengths are sorted."""
        return tuple(number for _, settings in self.parts for number in numbers_in(settings))


def read_setup(word: str) -> Setup:
    """The setup of a word, such as `hash:bits=8+max-norm`."""
    return Setup(tuple(split_spelling(part) for part in JOIN.split(word)))


def setup_of_objects(things: Iterable[object], label: str = "") -> Setup:
    """The setup of defences (and a cut); with a label, that is its name, and the objects give the strength."""
    setup = Setup(tuple(split_spelling(describe(thing)) for thing in things) or ((NONE, ""),))
    return setup_of_columns(label, setup.strength) if label else setup


def setup_of(row: Mapping[str, object]) -> Setup:
    """The setup that a row was found under."""
    return setup_of_columns(str(row["defence"]), str(row["strength"]))


@cache
def setup_of_columns(names: str, strength: str) -> Setup:
    """The setup of two columns; where they do not have as many parts, the names are one label."""
    each = JOIN.split(names)
    settings = JOIN.split(strength) if strength else [""] * len(each)
    if len(each) != len(settings) or any(":" in name for name in each):
        return Setup(((names, strength),))
    return Setup(tuple(zip(each, settings, strict=True)))
