"""Split training against a plain PyTorch loop over the same network.

Two bottoms 392-32-10, summed to the logits; batch 256, Adam, one thread, 60,000 rows (and 10,000
for evaluation) of the shape of MNIST's halves. Both sides shuffle, cut batches, train an epoch
and evaluate. Two references: `plain`, the loop that people write (x[rows], Adam as it comes),
and `tuned`, the fastest we know (index_select, fused Adam); `ratio` is against `plain`.
"""

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from cutlayer.bench.parts.random_task import random_task
from cutlayer.bench.parts.timing import Figures, fastest
from cutlayer.cuts.sum import Sum
from cutlayer.data.task import Features, Task
from cutlayer.plan import Plan, assemble
from cutlayer.progress import Progress, silent
from cutlayer.recipe import Recipe
from cutlayer.rng import generator
from cutlayer.training import using_threads
from cutlayer.transcript import Keep, Transcript

ROWS, TEST, BATCH = 60_000, 10_000, 256


def bottom(features: Features, width: int) -> nn.Module:
    """One half's network."""
    return nn.Sequential(nn.Linear(392, 32), nn.ReLU(), nn.Linear(32, 10))


def make_task() -> Task:
    """Random rows of the shape of MNIST's halves."""
    rng = generator(0, "bench")
    halves = {name: torch.rand(ROWS + TEST, 392, generator=rng) for name in ("a", "b")}
    return random_task(halves, 10, rng, train=torch.arange(ROWS), test=torch.arange(ROWS, ROWS + TEST))


def joint(task: Task, tuned: bool) -> Callable[[], None]:
    """Return one epoch, with evaluation, of the same network as one graph."""
    models = [bottom(features, 10) for features in task.features.values()]
    halves = [features.values for features in task.features.values()]
    parameters = [p for model in models for p in model.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=1e-3, fused=tuned)

    def pick(values: Any, rows: Tensor) -> Tensor:
        chosen: Tensor = values.index_select(0, rows) if tuned else values[rows]
        return chosen

    def logits(rows: Tensor) -> Tensor:
        first, second = (model(pick(half, rows)) for model, half in zip(models, halves, strict=True))
        total: Tensor = first + second
        return total

    def epoch() -> None:
        for rows in task.train[torch.randperm(ROWS)].split(BATCH):
            loss = cross_entropy(logits(rows), pick(task.labels, rows))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            right = [(logits(rows).argmax(1) == task.labels[rows]).sum() for rows in task.test.split(4096)]
            float(sum(right) / TEST)

    return epoch


def split(task: Task, keep: str) -> Callable[[], None]:
    """Return one epoch, with evaluation, of split training."""
    transcript = Transcript(Keep.parse(keep))
    plan = Plan(bottoms=bottom, top=nn.Identity(), cut=Sum(), recipe=Recipe(batch_size=BATCH, lr=1e-3))
    session = assemble(task, plan, transcript.record)

    def epoch() -> None:
        transcript.begin_epoch(0, is_last=True)
        session.train_epoch(0, task.train)
        float((session.predict(task.test).argmax(1) == task.labels[task.test]).float().mean())

    return epoch


SIDES: dict[str, Callable[[Task], Callable[[], None]]] = {
    "plain": lambda task: joint(task, tuned=False),
    "tuned": lambda task: joint(task, tuned=True),
    "split": lambda task: split(task, "none"),
    "recording": lambda task: split(task, "last"),
}


def peak_memory(side: str) -> int:
    """Peak resident memory of a process that runs one side for an epoch, in KiB."""
    code = f"from cutlayer.bench import train; train.report_peak({side!r})"
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    return int(done.stdout)


def report_peak(side: str) -> None:
    """Print this process's peak memory after an epoch (the body of `peak_memory`)."""
    import resource

    torch.set_num_threads(1)
    SIDES[side](make_task())()
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


def measure(repeats: int, progress: Progress = silent) -> Figures:
    """Interleave the four sides `repeats` times and compare the fastest turns."""
    with using_threads(1):
        task = make_task()
        best = fastest({name: make(task) for name, make in SIDES.items()}, repeats, progress)
    return {
        "ratio": best["plain"] / best["split"],
        "ratio_to_tuned_loop": best["tuned"] / best["split"],
        "recording_cost": best["recording"] / best["split"],
        "memory_ratio": peak_memory("split") / peak_memory("plain"),
        **{f"{name}_samples_per_second": ROWS / value for name, value in best.items()},
    }
