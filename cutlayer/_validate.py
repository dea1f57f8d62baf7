"""Checks of arguments: each names the argument, its value and what was expected."""

from collections.abc import Iterable
from difflib import get_close_matches
from math import isfinite

from cutlayer.errors import ConfigError


def positive(name: str, value: float) -> None:
    """Refuse anything but a finite number above zero."""
    if not (isfinite(value) and value > 0):
        raise ConfigError(f"Expected {name}={value} to be a finite number > 0.")


def non_negative(name: str, value: float) -> None:
    """Refuse anything but a finite number of zero or more."""
    if not (isfinite(value) and value >= 0):
        raise ConfigError(f"Expected {name}={value} to be a finite number >= 0.")


def at_least(name: str, value: int, least: int) -> None:
    """Refuse whole numbers that are too small."""
    if value < least:
        raise ConfigError(f"Expected {name}={value} to be at least {least}.")


def probability(name: str, value: float) -> None:
    """Refuse anything outside [0, 1]."""
    if not 0 <= value <= 1:
        raise ConfigError(f"Expected {name}={value} to lie between 0 and 1.")


def one_of(name: str, value: str, allowed: Iterable[str]) -> None:
    """Refuse a word that is not in a closed set, and suggest the nearest."""
    known = list(allowed)
    if value not in known:
        near = get_close_matches(value, known, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ConfigError(f"Unknown {name} {value!r}: expected one of {', '.join(known)}.{hint}")
