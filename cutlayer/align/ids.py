"""Ids: one form for every id, so that two parties' columns can meet; what cannot be used is counted, not named.

An id is the most personal thing a table holds, so no error, log or repr of this package shows one.
"""

import operator
import re
import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from cutlayer.errors import ConfigError, DataError

EDGE = re.compile(r"^[\s\ufeff\u200b-\u200f\u2060]+|[\s\ufeff\u200b-\u200f\u2060]+$")  # blanks, seen or not
KEEP_ZERO = ("39", "378")  # Italy and San Marino: the 0 belongs to the number


class Rule(Enum):
    """How ids are made alike. All parties must choose the same; the run's manifest says which."""

    TEXT = "text"  # trim, Unicode NFKC, fold case
    EMAIL = "email"  # the same, and it must hold one @
    PHONE = "phone"  # digits, with the country in front


@dataclass(frozen=True, slots=True, eq=False)
class Ids:
    """A party's ids, each once, with the row it stands in."""

    values: tuple[bytes, ...] = field(repr=False)
    rows: NDArray[np.int64] = field(repr=False)
    empty: int = 0  # rows that hold no id
    repeated: int = 0  # rows whose id stood in an earlier row

    def __len__(self) -> int:
        return len(self.values)

    def counts(self) -> dict[str, int]:
        """How many ids can be used, and how many rows hold none or a repeated one."""
        return {"usable": len(self), "empty": self.empty, "repeated": self.repeated}


def read_ids(column: Iterable[object], *, rule: Rule = Rule.TEXT, country: str = "", keep_first: bool = False) -> Ids:
    """Make a column's ids alike and keep each once.

    Rows without an id are left out and counted. An id in two rows has no one partner elsewhere, so repeats
    are refused, unless `keep_first` says to keep the first row of each. `country` (such as "49") completes phone
    numbers that are written without one.
    """
    normalise = _normaliser(rule, country)
    first: dict[bytes, int] = {}
    empty = total = 0
    for total, value in enumerate(column, start=1):
        id_ = normalise(_text(value)).encode("utf-8", "surrogatepass")
        if not id_:
            empty += 1
        else:
            first.setdefault(id_, total - 1)
    repeated = total - empty - len(first)
    if repeated and not keep_first:
        raise DataError(
            f"Expected every id in one row, got {repeated} of {total} rows whose id stood in an earlier row once "
            f"normalised by the rule {rule.value!r}; remove them, or choose to keep the first row of each."
        )
    return Ids(tuple(first), np.fromiter(first.values(), np.int64, len(first)), empty, repeated)


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    if value is None or (isinstance(value, float) and value != value):
        return ""
    if not isinstance(value, bool):
        try:
            return str(operator.index(value))  # type: ignore[arg-type]
        except TypeError:
            pass
    raise DataError(f"Expected ids that are text or whole numbers, got a value of type {type(value).__name__}.")


def _normaliser(rule: Rule, country: str) -> Callable[[str], str]:
    code = country.removeprefix("+")
    if code and not re.fullmatch("[1-9][0-9]{0,2}", code):
        raise ConfigError(f"Expected country={country!r} to be a calling code of one to three digits, such as '49'.")
    if code and rule is not Rule.PHONE:
        raise ConfigError(f"Expected no country for the rule {rule.value!r}; it completes phone numbers only.")
    by_rule = {
        Rule.TEXT: normalise_text,
        Rule.EMAIL: normalise_email,
        Rule.PHONE: lambda text: normalise_phone(text, code),
    }
    return by_rule[rule]


def normalise_text(text: str) -> str:
    """Trim, bring to Unicode NFKC and fold case. Folding can undo NFKC, so that comes again."""
    if text.isascii():
        return text.strip().lower()
    folded = unicodedata.normalize("NFKC", text).casefold()
    return EDGE.sub("", unicodedata.normalize("NFKC", folded))


def normalise_email(text: str) -> str:
    """An address as text; nothing where there is none. Dots and +tags stay: only some providers ignore them."""
    form = normalise_text(text)
    return form if re.fullmatch(r"[^\s@]+@[^\s@]+", form) else ""


def normalise_phone(text: str, country: str = "") -> str:
    """Digits with the country in front: +49 (0)30-1 and 0049 30 1 and, with country 49, 030 1 are all +49301."""
    form = normalise_text(text)
    abroad = form.lstrip("( ").startswith(("+", "00"))
    if abroad:
        form = form.replace("(0)", "", 1)
    digits = "".join(str(unicodedata.decimal(char)) for char in form if char.isdecimal())
    if abroad:
        number = digits if form.lstrip("( ").startswith("+") else digits[2:]
        return f"+{number}" if number else ""
    if digits and country:
        return f"+{country}{digits if country in KEEP_ZERO else digits.removeprefix('0')}"
    return digits
