"""Searches for binary columns: the enumeration of Algorithm 1 against trying one candidate at a time.

10,000 rows of 24 random columns, three of them binary, sent as float32. `ratio` is the time per
candidate of a plain NumPy loop (x = M x', then a check of all rows) over ours; at least 50 is wanted.
The plain loop is timed on 2,000 candidates and may use all cores for its products; ours is timed on all
2^24 and uses one. `seconds_search_N_columns` is the time of `binary-search` on tables of N columns, once each.
"""

import time

import numpy as np

from cutlayer.attacks.tools.binary.enumeration import binary_vectors
from cutlayer.attacks.tools.binary.recover import recover_binary
from cutlayer.attacks.tools.binary.span import Span, span_of
from cutlayer.bench.parts.timing import Figures
from cutlayer.errors import RunError
from cutlayer.papers.binary.checks import naive, synthetic
from cutlayer.progress import Progress, silent
from cutlayer.rng import numpy_generator

ROWS, COLUMNS, BINARY, WIDTH = 10_000, 24, 3, 100
SEARCHED = (20, 40, 60, 80)


def make_span() -> Span:
    """The span of float32 messages."""
    rng = numpy_generator(0, "bench binary")
    features = rng.random((ROWS, COLUMNS))
    features[:, :BINARY] = features[:, :BINARY] > 0.5
    return span_of((features @ rng.standard_normal((COLUMNS, WIDTH))).astype(np.float32))


def measure(repeats: int, progress: Progress = silent) -> Figures:
    """Interleave both sides `repeats` times and compare the fastest turns."""
    span = make_span()
    best = {"plain": float("inf"), "ours": float("inf")}
    for turn in range(repeats + 1):  # the first turn warms up
        plain = naive(span.basis)
        start = time.perf_counter()
        vectors = binary_vectors(span)
        ours = time.perf_counter() - start
        if turn:
            best = {"plain": min(best["plain"], plain), "ours": min(best["ours"], ours)}
        progress(turn + 1, repeats + 1, "")
    candidate, plain = best["ours"] / (1 << COLUMNS), best["plain"]
    return {
        "ratio": plain / candidate,
        "candidates_per_second": 1 / candidate,
        "candidates_per_second_plain": 1 / plain,
        "seconds_2_24_candidates": best["ours"],
        "found": vectors.shape[1],
        **{f"seconds_search_{columns}_columns": _search(columns) for columns in SEARCHED},
    }


def _search(columns: int) -> float:
    """Time of `binary-search` on one table of so many columns."""
    messages = synthetic(columns)
    start = time.perf_counter()
    if len(recover_binary(messages).columns) != BINARY:
        raise RunError(f"Expected {BINARY} columns of {columns} to be found; the search is broken on this machine.")
    return time.perf_counter() - start
