"""Marvell's noise: how near to a generic solver's over 1,000 instances, and what a batch of 1,024 rows costs.

    python -m benchmarks.marvell

Instances and generic solver (SLSQP on all four variances) are those of tests/defences/test_marvell.py, which does 200.
`worst_gap` is the largest relative difference of what is minimised; 1e-6 is wanted, and 1 ms a batch. `ratio`
is a protected batch over one plain draw of Gaussian noise of the same shape, added to it. One thread, fastest of 500,
in turn. Writes results/marvell.json.
"""

import json
import os
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

import torch

from benchmarks.results import RESULTS
from cutlayer.defence import Local, Place
from cutlayer.defences.marvell import Marvell, solve
from cutlayer.draws import Draws
from cutlayer.files import write_text
from cutlayer.rng import generator, normal_like
from cutlayer.training import using_threads

INSTANCES, ROWS, WIDTHS, TURNS = 1_000, 1_024, (16, 64), 500


def worst_gap() -> float:
    """The largest relative gap to the generic solver."""
    reference = import_module("tests.defences.test_marvell")
    gaps = []
    for case in reference.instances(INSTANCES):
        best = reference.generic(*case)
        gaps.append(abs(solve(*case).divergence - best) / best)
    return float(max(gaps))


def costs(width: int) -> dict[str, float]:
    """Milliseconds of a protected batch and of a plain draw."""
    rng, draws = generator(0, "bench marvell"), Draws(0, "bench marvell")
    labels = (torch.arange(ROWS) % 4 == 0).long()
    rows = torch.randn(ROWS, width, generator=rng) * torch.where(labels == 1, 1e-3, 5e-4)[:, None]
    rows[:, 0] += 0.004 * labels
    local = Local(Place.GRADIENT, draws, True, torch.arange(ROWS), labels=labels, classes=2)
    sides: dict[str, Callable[[], object]] = {
        "marvell_ms": lambda: Marvell().protect(rows, local),
        "plain_noise_ms": lambda: rows + normal_like(rows, draws),
    }
    best = dict.fromkeys(sides, float("inf"))
    for _ in range(TURNS):
        for name, side in sides.items():
            start = time.perf_counter()
            side()
            best[name] = min(best[name], 1000 * (time.perf_counter() - start))
    return best | {"ratio": best["marvell_ms"] / best["plain_noise_ms"]}


def main() -> None:
    """Measure, print and write."""
    with using_threads(1):
        record: dict[str, Any] = {f"width_{width}": costs(width) for width in WIDTHS}
    record |= {"instances": INSTANCES, "worst_gap": worst_gap(), "load": round(os.getloadavg()[0], 1)}
    record["command"] = "python -m benchmarks.marvell"
    write_text(RESULTS / "marvell.json", json.dumps(record, indent=2) + "\n")
    print(json.dumps(record, indent=2))


if __name__ == "__main__":
    main()
