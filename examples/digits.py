"""Digits across two parties, undefended and defended, under four attacks: the pictures of the tutorial.

Two tasks, on data that ships with scikit-learn. In both, party1 holds the labels and the left half
of each image, party2 the right half.

digits       Which digit is it? party2 goes for the labels with its own trained bottom and twenty known
             labels (model-completion); party1 goes for party2's pixels (model-inversion).
is it a 3?   Two classes, one of them rare. party2 reads labels off the gradients' lengths
             (norm-score) and directions (direction-score).

Settings (width, labels known, strengths, the inversion's tv and l2) were searched for on these digits so that the
attacks do well undefended; nothing is tuned to a defence, and whatever comes out is printed.
"""

import argparse
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from scipy.stats import t

import cutlayer as cl
from cutlayer.metrics.forms import measure_named
from cutlayer.report import plots
from cutlayer.setup import setup_of

EPOCHS, WIDTH = 30, 32
FILES = ("findings.csv", "reconstructions.png", "report.html", "trade-off.png")
NOISE, LABEL_DP, MAX_NORM = "gaussian-noise:std=1", "label-dp:epsilon=2", "max-norm"


def digits_task() -> cl.data.Task:
    """Which digit is it?"""
    return cl.data.digits(parties=2)


def three_task() -> cl.data.Task:
    """Is it a 3? One row in ten is."""
    task = cl.data.digits(parties=2)
    labels = (task.labels == 3).long()
    return replace(task, name="is it a 3?", labels=labels, goal=cl.data.Goal.BINARY, classes=("other", "3"), source={})


class Gallery:
    """Keeps one digit of each kind and what party1 made of it under each defence."""

    def __init__(self, task: cl.data.Task) -> None:
        halves = [task.features[name].values for name in ("party1", "party2")]
        self.images = torch.cat([half[:, 0] for half in halves], dim=2).numpy()
        self.own = halves[0].shape[3]
        self.labels = task.labels
        self.rows: list[int] = []
        self.guesses: dict[str, np.ndarray[Any, Any]] = {}
        self.notes: dict[str, str] = {}

    def keep(self, defence: str, seed: int, attack: cl.Attack, guess: cl.Guess, finding: cl.Finding) -> None:
        """Take the first attacked row of each digit, good or bad; from seed 0 only."""
        if seed or guess.form is not cl.Form.VALUES:
            return
        places = [int((self.labels[guess.rows] == digit).nonzero()[0]) for digit in range(10)]
        self.rows = guess.rows[places].tolist()
        shown = self.images[self.rows].copy()
        shown[:, :, self.own :] = guess.values[places][:, 0].numpy()
        self.guesses[defence] = shown
        self.notes[defence] = f"error {finding.value:.3f}\nbaseline {finding.baseline:.3f}"

    def draw(self, path: Path) -> None:
        """Write the picture."""
        plots.reconstructions(self.images[self.rows], self.guesses, path, own_columns=self.own, notes=self.notes)


def study(seeds: int, say: Callable[[str], None]) -> tuple[cl.Report, Gallery]:
    """Train and attack everything."""
    attacks, defences = cl.attacks, cl.defences
    noise, label_dp = defences.GaussianNoise(std=1.0), defences.LabelDP(epsilon=2.0)
    task, three = digits_task(), three_task()
    gallery = Gallery(task)
    parts = [
        cl.audit(
            task,
            defences={"none": [], NOISE: [noise], LABEL_DP: [label_dp]},
            attacks=[attacks.ModelCompletion(labels=20), attacks.ModelInversion(tv=0.01, l2=0.01)],
            seeds=range(seeds),
            progress=lambda text: say(f"{task.name}: {text}"),
            on_guess=gallery.keep,
            epochs=EPOCHS,
            width=WIDTH,
        ),
        cl.audit(
            three,
            defences={"none": [], MAX_NORM: [defences.MaxNorm()], LABEL_DP: [label_dp]},
            attacks=[attacks.NormScore(), attacks.DirectionScore()],
            seeds=range(seeds),
            progress=lambda text: say(f"{three.name}: {text}"),
            epochs=EPOCHS,
            width=WIDTH,
        ),
    ]
    names = (task.name, three.name)
    rows = [{"task": name, **row} for name, part in zip(names, parts, strict=True) for row in part.rows]
    return cl.Report(rows), gallery


def leaks(rows: list[dict[str, Any]]) -> bool:
    """Whether an attack beats its baseline on these seeds: a 95% interval of the difference stays above zero."""
    sign = -1 if measure_named(rows[0]["metric"]).less_is_more else 1
    gains = np.array([sign * (row["value"] - row["baseline"]) for row in rows])
    if len(rows) == 1:
        margin = (rows[0]["high"] - rows[0]["low"]) / 2
    else:
        margin = t.ppf(0.975, len(rows) - 1) * gains.std(ddof=1) / len(rows) ** 0.5
    return bool(gains.mean() - margin > 0)


def conclusions(report: cl.Report) -> list[str]:
    """One sentence per defence, from the figures alone."""
    accuracy: dict[tuple[str, str], list[float]] = {}
    cells: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in report.rows:
        setup = setup_of(row).spelling
        accuracy.setdefault((setup, row["task"]), []).append(row["accuracy"])
        cells.setdefault((setup, row["attack"].split(":")[0]), []).append(row)
    lines = []
    for defence in dict.fromkeys(defence for defence, _ in cells):
        verdicts = {attack: leaks(rows) for (name, attack), rows in cells.items() if name == defence}
        beaten = [attack for attack, verdict in verdicts.items() if verdict]
        held = [attack for attack, verdict in verdicts.items() if not verdict]
        parts = [f"falls to {', '.join(beaten)}"] if beaten else []
        parts += [f"does not fall to {', '.join(held)}"] if held else []
        if defence != "none":
            tasks = [task for name, task in accuracy if name == defence]
            costs = {task: np.mean(accuracy[defence, task]) - np.mean(accuracy["none", task]) for task in tasks}
            parts += [f"accuracy {100 * cost:+.1f} points on {task!r}" for task, cost in costs.items()]
        lines.append(f"{'undefended' if defence == 'none' else defence}: {'; '.join(parts)}.")
    return lines


def show(console: Console, summary: list[dict[str, Any]], seeds: int) -> None:
    """Print a table per task."""
    for task in dict.fromkeys(row["task"] for row in summary):
        table = Table(title=task, title_justify="left", header_style="bold", box=None, padding=(0, 1, 0, 0))
        for heading in ("defence", "attack", "metric"):
            table.add_column(heading, overflow="fold")
        for heading in ("leakage", "baseline", "accuracy"):
            table.add_column(heading, justify="right", no_wrap=True)
        last = ""
        for row in (row for row in summary if row["task"] == task):
            margin = (row["high"] - row["low"]) / 2
            setup = setup_of(row).spelling
            table.add_row(
                "" if setup == last else setup,
                row["attack"].split(":")[0],
                row["metric"],
                f"{row['value']:.3f} ±{margin:.3f}",
                f"{row['baseline']:.3f}",
                "" if setup == last else f"{row['accuracy']:.3f}",
            )
            last = setup
        console.print(table)
        console.print()
    over = f"over {seeds} seeds" if seeds > 1 else "over rows or batches"
    console.print(f"± a 95% interval {over}; a high accuracy or auc leaks, and so does a low mse")
    console.print("baseline: the best guess with the same rows and hints, but without the view\n")


@contextmanager
def steps(console: Console, total: int) -> Iterator[Callable[[str], None]]:
    """Show where the work is: a bar on a terminal, a line for each step otherwise."""
    if not console.is_terminal:
        yield lambda text: print(text, flush=True)
        return
    with Progress(console=console, transient=True) as bar:
        job = bar.add_task("starting", total=total)

        def say(text: str) -> None:
            bar.update(job, description=text, advance=1)

        yield say


def check(out: Path) -> None:
    """Refuse to replace a folder that this script did not make."""
    if out.exists() and not (out.is_dir() and {path.name for path in out.iterdir()} <= set(FILES)):
        sys.exit(f"{out} holds something else than this script's files; move it away or choose another --out.")


def put(folder: Path, out: Path) -> None:
    """Move a finished folder into place of the old one."""
    check(out)
    if out.exists():
        shutil.rmtree(out)
    folder.chmod(0o755)
    folder.rename(out)


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description="Train, defend and attack on handwritten digits.")
    parser.add_argument("--out", type=Path, default=Path("digits"), help="folder for the results (default: digits)")
    parser.add_argument("--seeds", type=int, default=5, help="how often each run is repeated (default: 5)")
    parser.add_argument("--docs", type=Path, help="copy the plots to this folder as well")
    options = parser.parse_args()
    if options.seeds < 1:
        parser.error(f"Expected --seeds {options.seeds} to be at least 1.")
    check(options.out)
    console = Console()
    console.print("Two parties hold one half of each image; party1 holds the labels. Training and attacking:")
    with steps(console, 12 * options.seeds) as say:
        report, gallery = study(options.seeds, say)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=".digits-", dir=options.out.parent))
    try:
        summary = report.summary()
        plots.trade_off(summary, folder / "trade-off.png")
        gallery.draw(folder / "reconstructions.png")
        report.save(folder / "report.html")
        report.save(folder / "findings.csv")
        put(folder, options.out)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if options.docs:
        for name in ("trade-off.png", "reconstructions.png"):
            shutil.copyfile(options.out / name, options.docs / name)
    show(console, summary, options.seeds)
    console.print("A defence falls to an attack that beats its baseline (95% sure, over seeds):")
    for line in conclusions(report):
        console.print(f"- {line}", highlight=False)
    console.print("No attack was adapted to a defence; one that fails here may yet succeed.\n")
    console.print(f"Results are in {options.out}/: {', '.join(FILES)}.", highlight=False)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
