"""Checks of arguments: each names the argument, its value and what was expected."""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from math import isfinite
from numbers import Integral, Real
from typing import TypeVar

from cutlayer.errors import ConfigError

T = TypeVar("T")


def number(name: str, value: object) -> None:
    """Refuse what is not a number; True and False are not numbers here."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise ConfigError(f"Expected {name}={value!r} to be a number.")


def whole(name: str, value: object) -> None:
    """Refuse what is not a whole number, 3.0 included: it counts something."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise ConfigError(f"Expected {name}={value!r} to be a whole number.")


def positive(name: str, value: float) -> None:
    """Refuse anything but a finite number above zero."""
    number(name, value)
    if not (isfinite(value) and value > 0):
        raise ConfigError(f"Expected {name}={value} to be a finite number > 0.")


def non_negative(name: str, value: float) -> None:
    """Refuse anything but a finite number of zero or more."""
    number(name, value)
    if not (isfinite(value) and value >= 0):
        raise ConfigError(f"Expected {name}={value} to be a finite number >= 0.")


def at_least(name: str, value: int, least: int) -> None:
    """Refuse anything but a whole number that is large enough."""
    whole(name, value)
    if value < least:
        raise ConfigError(f"Expected {name}={value} to be at least {least}.")


def probability(name: str, value: float) -> None:
    """Refuse anything outside [0, 1]."""
    number(name, value)
    if not 0 <= value <= 1:
        raise ConfigError(f"Expected {name}={value} to lie between 0 and 1.")


def one_of(name: str, value: str, allowed: Iterable[str]) -> None:
    """Refuse a word that is not in a closed set, and suggest the nearest."""
    known = list(allowed)
    if value not in known:
        raise ConfigError(f"Unknown {name} {value!r}: expected one of {', '.join(known)}.{suggestion(value, known)}")


def suggestion(value: str, known: Iterable[str]) -> str:
    """Ask for the nearest of the words that are known, if one is near."""
    near = get_close_matches(value, list(known), n=1)
    return f" Did you mean {near[0]!r}?" if near else ""


def instance(name: str, value: object, kind: type[T], example: str) -> T:
    """Refuse what is not an object of a class, and show an example."""
    if not isinstance(value, kind):
        raise ConfigError(f"Expected {name} to be an object such as {example}, got {shown(value)}.")
    return value


def listed(name: str, values: object, kind: type[T], example: str) -> tuple[T, ...]:
    """Refuse anything but a list of objects of a class, and show an example."""
    if isinstance(values, str | Mapping) or not isinstance(values, Iterable):
        raise ConfigError(f"Expected {name} to be a list of objects, such as [{example}], got {shown(values)}.")
    return tuple(instance(f"every one of {name}", value, kind, example) for value in values)


def shown(value: object) -> str:
    """Name a value in an error, without spilling what it holds."""
    if isinstance(value, type):
        return f"the class {value.__name__}"
    return repr(value) if isinstance(value, str | int | float | None) else f"a {type(value).__name__}"
