"""Patience: how long ago the best error was, for all who stop when nothing gets better."""

from collections.abc import Sequence
from math import inf


def since_best(errors: Sequence[float]) -> int:
    """How many errors came after the first least one: 0 if the last is the best so far. NaN is never the best."""
    best, place = inf, -1
    for number, error in enumerate(errors):
        if error < best:
            best, place = error, number
    return len(errors) - 1 - place
