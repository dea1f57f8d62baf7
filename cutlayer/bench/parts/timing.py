"""Timing: the fastest of interleaved turns, and time on cores. Other work on a machine only ever adds time."""

import resource
import time
from collections.abc import Callable, Mapping
from typing import TypeVar

from cutlayer.progress import Progress, silent

K = TypeVar("K")
Figures = dict[str, float | str]  # what a benchmark reports; `ratio` is the headline


def fastest(
    sides: Mapping[K, Callable[[], object]],
    repeats: int,
    progress: Progress = silent,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[K, float]:
    """Seconds of the fastest turn of each side; sides take turns, and the first turn only warms up."""
    best = dict.fromkeys(sides, float("inf"))
    for turn in range(repeats + 1):
        for name, side in sides.items():
            start = clock()
            side()
            if turn:
                best[name] = min(best[name], clock() - start)
        progress(turn + 1, repeats + 1, "")
    return best


def core_seconds() -> float:
    """Time on cores of this process and of those it has waited for."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)
