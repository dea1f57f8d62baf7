"""Hashing against no defence: time of an epoch, and bytes of embeddings across the cut, at the same width.

Two LeNets over 28x14 halves, width 16, batch 256, one thread, 6,000 random rows. `ratio` is the time
of an epoch with the defence over without; at most 1.10 is wanted.
"""

from collections.abc import Callable

import torch

from cutlayer.bench.parts.random_task import random_task
from cutlayer.bench.parts.timing import Figures, fastest
from cutlayer.data.task import Task
from cutlayer.defence import Defence
from cutlayer.defences.hash import Hash
from cutlayer.message import Phase
from cutlayer.plan import Plan, assemble
from cutlayer.progress import Progress, silent
from cutlayer.recipe import Recipe
from cutlayer.rng import generator
from cutlayer.training import using_threads
from cutlayer.transcript import Transcript

ROWS, WIDTH = 6_000, 16


def make_task() -> Task:
    """Random halves of pictures."""
    rng = generator(0, "bench hash")
    return random_task({name: torch.rand(ROWS, 1, 28, 14, generator=rng) for name in ("a", "b")}, 10, rng)


def side(task: Task, defences: tuple[Defence, ...]) -> tuple[Callable[[], object], Transcript]:
    """One epoch of training, and the transcript that counts its bytes."""
    transcript = Transcript()
    plan = Plan(width=WIDTH, defences=defences, recipe=Recipe(batch_size=256, lr=1e-3))
    session = assemble(task, plan, transcript.record)
    return lambda: session.train_epoch(0, task.train), transcript


def measure(repeats: int, progress: Progress = silent) -> Figures:
    """Interleave both sides `repeats` times and compare the fastest turns."""
    task = make_task()
    sides = {"without": side(task, ()), "with": side(task, (Hash(bits=WIDTH),))}
    with using_threads(1):
        best = fastest({name: epoch for name, (epoch, _) in sides.items()}, repeats, progress)
    forward = {name: transcript.bytes["a", "server", Phase.TRAIN] for name, (_, transcript) in sides.items()}
    return {
        "ratio": best["with"] / best["without"],
        "forward_bytes_ratio": forward["with"] / forward["without"],
        **{f"seconds_{name}": seconds for name, seconds in best.items()},
    }
