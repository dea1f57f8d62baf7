"""An audit in two processes against one: `ratio` is cells per minute with two workers over one.

Seven setups on digits, ten seeds, two attacks on each training, so that starting the workers (4 s) is a small part.
One training for each setup and seed, however many attacks share it.
"""

import tempfile
import time
from pathlib import Path

from cutlayer.bench.parts.timing import Figures
from cutlayer.experiment.cell import cells_of
from cutlayer.experiment.conduct import conduct
from cutlayer.experiment.study import Study
from cutlayer.progress import Progress, silent

DEFENCES = ("none", *(f"gaussian-noise:std={std}" for std in (0.1, 0.2, 0.5, 1.0)), "hash:bits=8", "greedy-hash:bits=8")
ATTACKS = ("model-completion", "model-inversion")


def make() -> Study:
    """The study that both sides conduct."""
    return Study(data="digits", defences=DEFENCES, attacks=ATTACKS, seeds=tuple(range(10)))


def measure(repeats: int, progress: Progress = silent) -> Figures:
    """Conduct the same study with one worker and with two, in turn; compare the fastest."""
    study = make()
    cells = len(cells_of(study, study.task()))
    best = {1: float("inf"), 2: float("inf")}
    findings = set()
    for turn in range(repeats):
        for workers in best:
            with tempfile.TemporaryDirectory() as folder:
                start = time.perf_counter()
                record = conduct(study, Path(folder) / "audit", workers=workers)
                best[workers] = min(best[workers], time.perf_counter() - start)
            findings.add(tuple((row["cell"], row["value"]) for row in record.rows))
            progress(2 * turn + workers, 2 * repeats, "")
    return {
        "ratio": best[1] / best[2],
        **{f"cells_per_minute_{workers}": 60 * cells / seconds for workers, seconds in best.items()},
        "cells": cells,
        "trainings": len(study.defences) * len(study.seeds),
        "identical_findings": len(findings) == 1,
    }
