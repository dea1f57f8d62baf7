"""train: from a task and a plan to a finished Run, with checkpoints, early stopping and resuming."""

import errno
import json
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from math import isfinite
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from cutlayer import checkpoint
from cutlayer._validate import at_least, instance, listed
from cutlayer.auditing.canaries import privacy_of
from cutlayer.blocks.patience import since_best
from cutlayer.cut import Cut
from cutlayer.data.task import Goal, Task
from cutlayer.defence import Defence
from cutlayer.errors import ConfigError, DataError, RunError
from cutlayer.json_types import Json
from cutlayer.party import FeatureParty, loss_of
from cutlayer.plan import Bottoms, Plan, Top, assemble, training_labels
from cutlayer.progress import Progress, silent
from cutlayer.recipe import Recipe
from cutlayer.run import Run
from cutlayer.session import Session
from cutlayer.settings import Settings, settings_of
from cutlayer.transcript import Keep, Policy, Transcript

CHECKPOINT_SECONDS = 10.0  # between checkpoints; the first epoch always writes one


def train(
    task: Task,
    *,
    settings: Settings | None = None,
    bottoms: Bottoms | None = None,
    top: Top | None = None,
    width: int | None = None,
    cut: Cut | None = None,
    defences: Sequence[Defence] | None = None,
    recipe: Recipe | None = None,
    epochs: int | None = None,
    seed: int | None = None,
    device: str | None = None,
    parties: Mapping[str, type[FeatureParty]] | None = None,
    threads: int = 1,
    keep: Keep | str = "last",
    out: Path | str | None = None,
    resume: bool = False,
    progress: Progress = silent,
) -> Run:
    """Train a split network and return the run; with `out`, write a run folder as well.

    The same arguments give bit-identical models, run after run, on one machine. `settings` describe models and
    training in words; whatever else is given overrides them, and `epochs` overrides the recipe's. Modules passed in
    are copied, never changed. `threads` is torch's number of CPU threads meanwhile: sums, and so bits, depend on it,
    and small models gain nothing from a second. `parties` names feature parties of another class, such as
    parties.greedy.GreedyParty, which takes longer steps than agreed.
    """
    objects: dict[str, Any] = {
        "bottoms": bottoms,
        "top": top,
        "width": width,
        "cut": cut,
        "defences": None if defences is None else listed("defences", defences, Defence, "cl.defences.MaxNorm()"),
        "recipe": recipe,
        "seed": seed,
        "device": device,
        "parties": parties,
    }
    plan = replace(
        Plan() if settings is None else settings.plan(),
        **{key: value for key, value in objects.items() if value is not None},
    )
    if epochs is not None:
        plan = replace(plan, recipe=replace(plan.recipe, epochs=epochs))
    return train_plan(task, plan, threads=threads, keep=keep, out=out, resume=resume, progress=progress)


def train_plan(
    task: Task,
    plan: Plan,
    *,
    threads: int = 1,
    keep: Keep | str = "last",
    out: Path | str | None = None,
    resume: bool = False,
    progress: Progress = silent,
    begin: Callable[[Session], None] = lambda session: None,
) -> Run:
    """Train what a plan says (see `train`). `begin` may change the parties before the first step."""
    _check(task, plan)
    folder = None if out is None else Path(out)
    if folder:
        _check_folder(folder, resume)
    keep = Keep.parse(keep) if isinstance(keep, str) else keep
    transcript = Transcript(keep, None if folder is None else folder / "transcript")
    run = Run(task, plan, assemble(task, plan, transcript.record), transcript)
    begin(run.session)
    with _full_disk_explained(folder):
        with using_threads(threads):
            _fit(run, folder, resume, progress)
            run.metrics = run.evaluate(task.test)
            run.privacy = privacy_of(task, plan)
        if folder:
            run.save(folder)
            shutil.rmtree(folder / "checkpoint", ignore_errors=True)
    return run


def _check_folder(folder: Path, resume: bool) -> None:
    if folder.exists() and not resume:
        raise ConfigError(f"The folder {folder} exists already; choose another --out, or --resume it.")
    if resume and (folder / "run.json").exists():
        raise ConfigError(f"The run in {folder} is finished already; there is nothing to resume.")


@contextmanager
def _full_disk_explained(folder: Path | None) -> Iterator[None]:
    """Say what to do where the disk is full."""
    try:
        yield
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        raise RunError(
            f"The disk is full while writing {folder}; what was complete is kept: "
            f"free some space and go on with --resume."
            if folder
            else "The disk is full where temporary files are, and messages are kept there: free some space, set "
            "TMPDIR to a larger place, or keep fewer (keep='none')."
        ) from error


@contextmanager
def using_threads(count: int) -> Iterator[None]:
    """Let torch use `count` CPU threads inside the block."""
    at_least("threads", count, 1)
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _check(task: Task, plan: Plan) -> None:
    instance("task", task, Task, "cl.data.digits() or cl.data.table('customers.csv', label='default')")
    size = plan.recipe.batch_size
    if len(task.train) < size:
        raise DataError(
            f"Expected at least one batch of {size} training rows, got {len(task.train)}; use a smaller --batch-size."
        )
    if not len(task.test):
        raise DataError("Expected at least one test row, got none.")
    if task.goal is not Goal.REGRESSION and len(task.labels[task.train].unique()) < 2:
        raise DataError("Expected at least two classes among the training rows, got one.")
    if plan.recipe.patience is not None and not len(task.valid):
        raise ConfigError("Expected a validation part for early stopping; hold one out with --valid 0.1.")
    if plan.device != "cpu" and not torch.cuda.is_available():
        raise ConfigError(f"The device {plan.device!r} is not available here; use --device cpu.")


class Best:
    """The parties as they were after the epoch with the least validation loss (early stopping)."""

    def __init__(self) -> None:
        self.states: dict[str, dict[str, Tensor]] = {}

    def update(self, run: Run) -> bool:
        """Remember the parties if the last epoch was the best; say whether to stop."""
        waited = since_best([record["valid_loss"] for record in run.history])
        if waited == 0:
            self.states = {name: checkpoint.state_of(party) for name, party in run.session.parties.items()}
        patience = run.plan.recipe.patience
        return patience is not None and waited >= patience

    def restore(self, run: Run) -> None:
        """Put the parties back to the best epoch."""
        for name, state in self.states.items():
            checkpoint.restore(run.session.parties[name], state)


def _fit(run: Run, folder: Path | None, resume: bool, progress: Progress) -> None:
    """Train epoch by epoch, with checkpoints and early stopping."""
    task, recipe, session = run.task, run.plan.recipe, run.session
    best = Best()
    start = _resume(run, best, folder) if folder and resume else 0
    steps = -(-len(task.train) // recipe.batch_size)
    done, began, saved = start * steps, time.perf_counter(), float("-inf")

    def on_step() -> None:
        nonlocal done
        done += 1
        progress(done, recipe.epochs * steps, _status(run.history))

    for epoch in range(start, recipe.epochs):
        run.transcript.begin_epoch(epoch, is_last=recipe.patience is not None or epoch == recipe.epochs - 1)
        record = {"epoch": float(epoch), "loss": session.train_epoch(epoch, task.train, on_step)}
        if not isfinite(record["loss"]):
            raise RunError(f"Training diverged in epoch {epoch}: the loss is not a number; use a smaller --lr.")
        if len(task.valid):
            outputs = session.predict(task.valid)
            labels = training_labels(task.labels, task.goal, task.train)[task.valid]
            record["valid_loss"] = float(loss_of(outputs, labels))
        run.history.append(record)
        if recipe.patience is not None and best.update(run):
            break
        if folder and time.perf_counter() - saved > CHECKPOINT_SECONDS:
            _save(run, best, folder, epoch + 1)
            saved = time.perf_counter()
    best.restore(run)
    run.seconds += time.perf_counter() - began


def _save(run: Run, best: Best, folder: Path, epoch: int) -> None:
    """Write a checkpoint from which training goes on with an epoch."""
    run.transcript.save()  # first: what it holds beyond the checkpoint is cut off on resuming
    plan, source = _words_of(run)
    state = checkpoint.RunProgress(
        epoch=epoch,
        step=run.session.step,
        history=run.history,
        plan=plan,
        task=source,
        bytes=run.transcript.counts(),
    )
    checkpoint.save(folder, run.session.parties, state, best.states)


def _resume(run: Run, best: Best, folder: Path) -> int:
    """Go back to the last checkpoint: parties, history, transcript. Returns the epoch to go on with."""
    before, _ = checkpoint.load(folder, {})
    if other := _differing(before, *_words_of(run)):
        raise RunError(f"Expected the options of the interrupted run to resume it; they differ in {', '.join(other)}.")
    state, best.states = checkpoint.load(folder, run.session.parties)
    run.session.step, run.history = state["step"], state["history"]
    epoch = state["epoch"]
    if run.transcript.keep.policy is Policy.LAST and epoch < run.plan.recipe.epochs:
        shutil.rmtree(folder / "transcript", ignore_errors=True)  # the last epoch is still to come
    else:
        run.transcript.channels = Transcript.open(folder / "transcript").channels
        for channel in run.transcript.channels.values():
            channel.truncate(run.session.step)
    run.transcript.recount(state["bytes"])
    return epoch


def _words_of(run: Run) -> tuple[dict[str, Json], dict[str, Json]]:
    """What a run is of: its plan and its task in words; a table may lie elsewhere, but is the same."""
    source = {key: value for key, value in run.task.source.items() if key != "table"}
    plan: dict[str, Json] = json.loads(json.dumps(settings_of(run.plan).to_json()))
    task: dict[str, Json] = json.loads(json.dumps(source))
    return plan, task


def _differing(before: checkpoint.RunProgress, plan: Mapping[str, Json], task: Mapping[str, Json]) -> list[str]:
    """Which words are not the same."""
    pairs = [(before["plan"], plan), (before.get("task", task), task)]
    return sorted({key for old, new in pairs for key in {*old, *new} if old.get(key) != new.get(key)})


def _status(history: list[dict[str, float]]) -> str:
    if not history:
        return ""
    valid = f", validation {history[-1]['valid_loss']:.4f}" if "valid_loss" in history[-1] else ""
    return f"loss {history[-1]['loss']:.4f}{valid}"
