"""train: from a task and a plan to a finished Run, with checkpoints, early stopping and resuming."""

import errno
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from cutlayer import checkpoint
from cutlayer.cut import Concat, Cut
from cutlayer.data.task import Goal, Task
from cutlayer.defence import Defence
from cutlayer.errors import ConfigError, DataError, RunError
from cutlayer.models.defaults import default_bottom, default_top
from cutlayer.party import loss_of
from cutlayer.plan import Bottoms, Plan, Top, assemble, training_labels
from cutlayer.recipe import Recipe
from cutlayer.run import Run, plan_json
from cutlayer.transcript import Keep, Transcript

CHECKPOINT_SECONDS = 10.0  # between checkpoints; the first epoch always writes one

Progress = Callable[[int, int, str], None]  # steps done, steps in all, a line of text


def train(
    task: Task,
    *,
    bottoms: Bottoms = default_bottom,
    top: Top = default_top,
    width: int = 16,
    cut: Cut | None = None,
    defences: Sequence[Defence] = (),
    recipe: Recipe | None = None,
    epochs: int | None = None,
    seed: int = 0,
    device: str = "cpu",
    keep: Keep | str = "last",
    out: Path | str | None = None,
    resume: bool = False,
    progress: Progress | None = None,
) -> Run:
    """Train a split network and return the run; with `out`, write a run folder as well.

    The same arguments give bit-identical models, run after run, on one machine. `epochs` overrides
    the recipe's. Modules passed in are copied, never changed.
    """
    recipe = recipe or Recipe()
    plan = Plan(
        bottoms=bottoms,
        top=top,
        width=width,
        cut=cut or Concat(),
        defences=tuple(defences),
        recipe=recipe if epochs is None else replace(recipe, epochs=epochs),
        seed=seed,
        device=device,
    )
    return train_plan(task, plan, keep=keep, out=out, resume=resume, progress=progress)


def train_plan(
    task: Task,
    plan: Plan,
    *,
    keep: Keep | str = "last",
    out: Path | str | None = None,
    resume: bool = False,
    progress: Progress | None = None,
) -> Run:
    """Train what a plan says (see `train`)."""
    _check(task, plan)
    folder = None if out is None else Path(out)
    if folder and folder.exists() and not resume:
        raise ConfigError(f"The folder {folder} exists already; choose another --out, or --resume it.")
    if folder and resume and (folder / "run.json").exists():
        raise ConfigError(f"The run in {folder} is finished already; there is nothing to resume.")
    keep = Keep.parse(keep) if isinstance(keep, str) else keep
    transcript = Transcript(keep, None if folder is None else folder / "transcript")
    run = Run(task, plan, assemble(task, plan, transcript.record), transcript)
    try:
        _fit(run, folder, resume, progress)
        run.metrics = run.evaluate(task.test)
        if folder:
            run.save(folder)
            shutil.rmtree(folder / "checkpoint", ignore_errors=True)
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise RunError(
                f"The disk is full while writing {folder}; what was complete is kept: "
                f"free some space and go on with --resume."
            ) from error
        raise
    return run


def _check(task: Task, plan: Plan) -> None:
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


def _fit(run: Run, folder: Path | None, resume: bool, progress: Progress | None) -> None:
    """Train epoch by epoch, with checkpoints and early stopping."""
    task, recipe, session = run.task, run.plan.recipe, run.session
    start, best, waited = 0, float("inf"), 0
    best_state: dict[str, dict[str, Tensor]] = {}
    if folder and resume:
        state = checkpoint.load(folder, session.parties)
        if state["plan"] != plan_json(run.plan):
            raise RunError("Expected the options of the interrupted run to resume it; they differ.")
        start, session.step, run.history = state["epoch"], state["step"], state["history"]
        _reopen_transcript(run, folder)
    steps = -(-len(task.train) // recipe.batch_size)
    began, saved = time.perf_counter(), float("-inf")
    for epoch in range(start, recipe.epochs):
        is_last = recipe.patience is not None or epoch == recipe.epochs - 1
        run.transcript.begin_epoch(epoch, is_last)
        done = epoch * steps

        def on_step() -> None:
            nonlocal done
            done += 1
            if progress:
                progress(done, recipe.epochs * steps, _status(run.history))

        record = {"epoch": float(epoch), "loss": session.train_epoch(epoch, task.train, on_step)}
        if not record["loss"] == record["loss"]:
            raise RunError(f"Training diverged in epoch {epoch}: the loss is not a number; use a smaller --lr.")
        if len(task.valid):
            outputs = session.predict(task.valid)
            record["valid_loss"] = float(loss_of(outputs, training_labels(task)[task.valid]))
        run.history.append(record)
        if recipe.patience is not None:
            better = record["valid_loss"] < best
            best, waited = min(best, record["valid_loss"]), 0 if better else waited + 1
            if better:
                best_state = {n: checkpoint.state_of(p) for n, p in session.parties.items()}
            if waited >= recipe.patience:
                break
        if folder and time.perf_counter() - saved > CHECKPOINT_SECONDS:
            state = {"epoch": epoch + 1, "step": session.step, "history": run.history}
            checkpoint.save(folder, session.parties, state | {"plan": plan_json(run.plan)})
            run.transcript.save()
            saved = time.perf_counter()
    for name, state_of_best in best_state.items():
        checkpoint.restore(session.parties[name], state_of_best)
    run.seconds += time.perf_counter() - began


def _status(history: list[dict[str, float]]) -> str:
    if not history:
        return ""
    valid = f", validation {history[-1]['valid_loss']:.4f}" if "valid_loss" in history[-1] else ""
    return f"loss {history[-1]['loss']:.4f}{valid}"


def _reopen_transcript(run: Run, folder: Path) -> None:
    """Go back to what the transcript held at the checkpoint."""
    opened = Transcript.open(folder / "transcript")
    if not opened.channels:
        shutil.rmtree(folder / "transcript", ignore_errors=True)
    run.transcript.channels = opened.channels
    run.transcript.bytes |= opened.bytes
    for channel in opened.channels.values():
        channel.truncate(run.session.step)
