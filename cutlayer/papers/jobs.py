"""Jobs: the trainings and attacks behind a paper's tables, run in parallel and kept, so that work resumes.

A job says everything that determines its outcome. Outcomes are appended to a file of JSON lines,
one per job, as they come; a second call does only what is missing. Tables share jobs.
"""

import json
import os
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch

from cutlayer.auditing.attacking import attack_run
from cutlayer.data.named import read_dataset
from cutlayer.data.split import recut
from cutlayer.data.task import Task
from cutlayer.errors import Diverged
from cutlayer.horizontal.federation import Federated, Federation, run_federation
from cutlayer.plan import Plan
from cutlayer.rng import generator
from cutlayer.run import Run
from cutlayer.settings import Settings, read_attacks
from cutlayer.spec import settings
from cutlayer.training import train_plan


@dataclass(frozen=True)
class Job:
    """One training, and what is measured on it. All words are the command line's."""

    data: str
    bottom: str = "default"
    top: str = "default"
    width: int = 16
    cut: str = "concat"
    defence: str = "none"
    epochs: int = 30
    batch_size: int = 256
    lr: float = 1e-3
    weight_decay: float = 5e-4
    drop_every: int = 10  # epochs between divisions of the learning rate by ten
    share: float = 0.5  # of the columns, held by the first of two parties
    optimiser: str = "adam"
    milestones: tuple[int, ...] = ()  # epochs at which the learning rate is divided by ten, instead
    seed: int = 0
    attacks: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()  # module:function, given the run, returning named numbers
    clip: float = 0.0  # largest norm of a party's own gradient; 0: any
    horizontal: str = ""  # clients, method and exchange of horizontal learning: clients=10,method=fedavg
    rows: int = 0  # to train on, drawn by the seed, with up to as many others to test on; 0: as the dataset has it

    @property
    def key(self) -> str:
        """What names the job in the file of outcomes."""
        return json.dumps(asdict(self), sort_keys=True)


Outcome = dict[str, Any]


def run_job(job: Job, device: str = "cpu") -> Outcome:
    """Train, evaluate, attack and check."""
    start = time.perf_counter()
    torch.backends.cudnn.benchmark = device != "cpu"  # shapes repeat: let it choose the fastest kernels
    task = _task(job.data)
    if job.share != 0.5:
        task = recut(task, (job.share, 1 - job.share))
    if job.rows:
        task = some_rows(task, job.rows, generator(job.seed, "job rows"))
    plan = plan_of(job, device)
    attacks = read_attacks(job.attacks) if job.attacks else []  # no words would mean all
    outcome: Outcome = {"job": asdict(job), "metrics": {}, "losses": [], "findings": [], "checks": {}, "device": device}
    try:
        run = trained(task, plan, job)
    except Diverged as error:  # one setting of a sweep may; the table then has a gap there
        return outcome | {"diverged": str(error), "seconds": round(time.perf_counter() - start, 1)}
    findings = [finding.facts() for finding in attack_run(run, attacks, seed=job.seed)] if attacks else []
    checks: dict[str, float] = {}
    for spelling in job.checks:
        module, _, function = spelling.partition(":")
        checks |= getattr(import_module(f"cutlayer.papers.{module.removesuffix('_checks')}.checks"), function)(run)
    return outcome | {
        "metrics": run.metrics,
        "losses": [round(epoch["loss"], 5) for epoch in run.history],
        "findings": findings,
        "checks": checks,
        "bytes": run.transcript.traffic(),
        "seconds": round(time.perf_counter() - start, 1),
    }


def plan_of(job: Job, device: str = "cpu") -> Plan:
    """What a job trains, and how."""
    schedule = f"steps:every={job.drop_every},factor=0.1"
    if job.milestones:
        schedule = f"milestones:at={'-'.join(map(str, job.milestones))},factor=0.1"
    settings = Settings(
        bottom=job.bottom,
        top=job.top,
        width=job.width,
        cut=job.cut,
        defences=(job.defence,),
        epochs=job.epochs,
        batch_size=job.batch_size,
        optimiser=job.optimiser,
        lr=job.lr,
        weight_decay=job.weight_decay,
        schedule=schedule,
        clip=job.clip or None,
        seed=job.seed,
    )
    return settings.plan(device=device)


def trained(task: Task, plan: Plan, job: Job) -> Run | Federated:
    """The run, with those messages that its attacks may look at: of averaged weights none does."""
    if not job.horizontal:
        return train_plan(task, plan, keep="ends" if job.attacks else "none")
    chosen = settings(job.horizontal, Federation, "horizontal learning")
    federation = Federation(plan=plan, **chosen)
    return run_federation(task, federation, keep="all" if federation.exchange == "gradients" else "none")


def some_rows(task: Task, count: int, rng: torch.Generator) -> Task:
    """Train on so many rows of all, and test on up to as many others (at least 2,000, if there are)."""
    rows = torch.cat([task.train, task.valid, task.test])
    order = rows[torch.randperm(len(rows), generator=rng)]
    return replace(task, train=order[:count], test=order[count : count + max(count, 2000)], valid=rows[:0])


@lru_cache(maxsize=2)
def _task(spelling: str) -> Task:
    return read_dataset(spelling)


def read_outcomes(store: Path) -> dict[str, Outcome]:
    """Outcomes by job key; a line cut short by a crash is skipped, and its job runs again."""
    found: dict[str, Outcome] = {}
    for line in store.read_text().splitlines() if store.exists() else []:
        try:
            outcome: Outcome = json.loads(line)
        except json.JSONDecodeError:
            continue
        found[Job(**outcome["job"]).key] = outcome  # settings that came later are at their defaults
    return found


def run_jobs(
    jobs: Iterable[Job],
    store: Path,
    *,
    device: str = "cpu",
    workers: int = 1,
    progress: Callable[[int, int, str], None] = lambda done, total, text: None,
) -> dict[str, Outcome]:
    """Run what is missing, append each outcome as it comes, and return all. A worker's error is raised when the
    others are done, so that nothing of theirs is lost."""
    outcomes = read_outcomes(store)
    missing = [job for job in dict.fromkeys(jobs) if job.key not in outcomes]
    store.parent.mkdir(parents=True, exist_ok=True)
    if store.exists() and not store.read_bytes().endswith(b"\n"):  # a crash cut the last line short: end it
        with store.open("a") as file:
            file.write("\n")

    def keep(job: Job, outcome: Outcome, done: int) -> None:
        outcomes[job.key] = outcome
        with store.open("a") as file:
            file.write(json.dumps(outcome) + "\n")
        progress(done, len(missing), f"{job.data} {job.defence} {outcome['metrics'].get('accuracy', float('nan')):.4f}")

    progress(0, len(missing), "")
    if workers == 1:
        for done, job in enumerate(missing, start=1):
            keep(job, run_job(job, device), done)
        return outcomes
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # one thread each: workers are many
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        futures = {pool.submit(run_job, job, device): job for job in missing}
        failures = []
        for done, future in enumerate(as_completed(futures), start=1):
            if error := future.exception():  # a full disk, say, which others may find less full
                failures.append(error)
            else:
                keep(futures[future], future.result(), done)
    if failures:
        raise failures[0]
    return outcomes
