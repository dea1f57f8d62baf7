"""Every defence against none: CPU time of an epoch, at the middle of the strengths that an audit tries.

Two LeNets over 28x14 halves, width 16, batch 256, one thread, 2,048 random rows of ten classes. A defence that refuses
these is measured on the first that it accepts of two others: the same with two classes, and a table of 0/1 columns
under linear bottoms; each over undefended training of the same. `ratio` is VFLDefender's; at most 1.10 is wanted.
"""

import time
from collections.abc import Callable

import torch

import cutlayer.defences
from cutlayer.bench.parts.random_task import random_task
from cutlayer.bench.parts.timing import Figures, fastest
from cutlayer.data.task import Task
from cutlayer.defence import Defence
from cutlayer.errors import CutlayerError
from cutlayer.models import named
from cutlayer.plan import Plan, assemble
from cutlayer.progress import Progress, silent
from cutlayer.recipe import Recipe
from cutlayer.rng import generator
from cutlayer.spec import find, parse, spell
from cutlayer.training import using_threads

ROWS, WIDTH, COLUMNS = 2_048, 16, 64
WANTED = "vfl-defender"
KINDS = {"images": ("default", 10), "two classes": ("default", 2), "0/1 columns": ("linear", 2)}  # bottom, classes

Epoch = Callable[[], object]


def make_task(kind: str) -> Task:
    """Random pictures, or random 0/1 columns."""
    rng, classes = generator(0, "bench defences"), KINDS[kind][1]
    if kind == "0/1 columns":
        halves = {name: torch.rand(ROWS, COLUMNS, generator=rng).round() for name in ("a", "b")}
    else:
        halves = {name: torch.rand(ROWS, 1, 28, 14, generator=rng) for name in ("a", "b")}
    return random_task(halves, classes, rng)


def epoch_of(task: Task, kind: str, defences: tuple[Defence, ...]) -> Epoch:
    """One epoch of training, tried on one batch: a defence may refuse when it meets one."""
    bottom, _ = KINDS[kind]
    plan = Plan(bottoms=named.bottom(bottom), width=WIDTH, defences=defences, recipe=Recipe(batch_size=256, lr=1e-3))
    session = assemble(task, plan, lambda message: None)
    session.train_epoch(0, task.train[:256])
    return lambda: session.train_epoch(0, task.train)


def sides() -> tuple[dict[tuple[str, str], Epoch], dict[str, str]]:
    """An epoch for each setup on the first kind of rows that it accepts, `none` on each; and why others refuse."""
    tasks = {kind: make_task(kind) for kind in KINDS}
    epochs = {("none", kind): epoch_of(task, kind, ()) for kind, task in tasks.items()}
    refused = {}
    for name, cls in find(cutlayer.defences, Defence).items():
        strength = (cls.strengths or ("",))[len(cls.strengths) // 2]
        setup = spell(name, strength)
        for kind, task in tasks.items():
            try:
                defence = parse(setup, cutlayer.defences, Defence, "defence")
                epochs[setup, kind] = epoch_of(task, kind, (defence,))
                break
            except CutlayerError as error:
                refused[setup] = str(error)
    return epochs, {setup: why for setup, why in refused.items() if all(setup != s for s, _ in epochs)}


def measure(repeats: int, progress: Progress = silent) -> Figures:
    """Interleave all `repeats` times and compare the fastest turns."""
    with using_threads(1):
        epochs, refused = sides()
        best = fastest(epochs, repeats, progress, time.process_time)
    ratios = {side: seconds / best["none", side[1]] for side, seconds in best.items() if side[0] != "none"}
    return {
        "ratio": next(ratio for (setup, _), ratio in ratios.items() if setup.startswith(WANTED)),
        **{setup if kind == "images" else f"{setup}, {kind}": ratio for (setup, kind), ratio in ratios.items()},
        **{setup: f"refused: {why}" for setup, why in refused.items()},
        **{f"seconds_without, {kind}": best["none", kind] for kind in KINDS},
    }
