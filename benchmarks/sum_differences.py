"""What helps against sum-differences: python -m benchmarks.sum_differences writes results/sum-differences.csv.

Halves of digits under secure-sum, a linear bottom at the label party, 200 known rows of its partner. Squared error
of the victim's pixels: what the attack makes of the differences of epochs, of these or the sums themselves
(whichever does better on held-out rows), and with the partner's weights instead of known rows; beside them the same
ridge regression on the label party's own columns alone, which reads no message.
"""

import sys
from dataclasses import dataclass

import numpy as np
import torch

import cutlayer as cl
from benchmarks.results import write_table
from benchmarks.sfa_remedies import Signs
from cutlayer.attacks.sum_differences import own_columns
from cutlayer.attacks.tools.ridge import best_ridge
from cutlayer.auditing.attacking import attack_run
from cutlayer.cuts.secure_sum import SecureSum
from cutlayer.defence import Defence
from cutlayer.defences import GaussianNoise
from cutlayer.models import named
from cutlayer.rng import generator
from cutlayer.run import Run
from cutlayer.settings import read_attacks

PAIRS, SEEDS = 200, range(3)
ATTACKS = {
    "differences": f"sum-differences:pairs={PAIRS},reads=differences",
    "sums_or_differences": f"sum-differences:pairs={PAIRS}",
    "weights_known": "sum-differences:knows=weights",
}


@dataclass(frozen=True)
class Case:
    """What is changed."""

    epochs: int = 6
    width: int = 64
    bottom: str = "linear"  # the feature party's
    defences: tuple[Defence, ...] = ()


CASES = {
    "6 epochs": Case(),
    "2 epochs": Case(epochs=2),
    "1 epoch": Case(epochs=1),
    "20 epochs": Case(epochs=20),
    "width 16": Case(width=16),
    "width 8": Case(width=8),
    "partner has a hidden layer": Case(bottom="mlp:hidden=64"),
    "partner has two hidden layers": Case(bottom="mlp:hidden=64-64"),
    "fresh noise 0.1": Case(defences=(GaussianNoise(std=0.1),)),
    "fresh noise 0.3": Case(defences=(GaussianNoise(std=0.3),)),
    "fresh noise 1": Case(defences=(GaussianNoise(std=1.0),)),
    "signs of 64 numbers": Case(defences=(Signs(bits=64),)),
    "signs of 16 numbers": Case(width=16, defences=(Signs(bits=16),)),
    "signs of 8 numbers": Case(width=8, defences=(Signs(bits=8),)),
}


def make_run(case: Case, seed: int) -> Run:
    """Train under secure-sum."""
    task = cl.data.digits()
    return cl.train(
        task,
        cut=SecureSum(),
        bottoms={task.label_party: named.bottom("linear"), task.feature_parties[0]: named.bottom(case.bottom)},
        top=named.top("relu-mlp"),
        width=case.width,
        epochs=case.epochs,
        defences=case.defences,
        seed=seed,
        keep="all",
    )


def own_alone(run: Run) -> float:
    """The error of the attacker's own columns, by the same regression on as many rows."""
    task, victim = run.task, run.task.feature_parties[0]
    truth = task.features[victim].values
    assert isinstance(truth, torch.Tensor)
    rows = task.train[torch.randperm(len(task.train), generator=generator(run.plan.seed, "own alone"))]
    own, values = own_columns(run.view(task.label_party), rows), truth[rows].flatten(1).double()
    order = torch.randperm(PAIRS, generator=generator(run.plan.seed, "held out"))
    _, learned = best_ridge([own[:PAIRS]], values[:PAIRS], order)
    return float((learned(own[PAIRS:]) - values[PAIRS:]).pow(2).mean())


def measure() -> None:
    """All cases, three seeds each; what does not apply stays empty."""
    lines: list[dict[str, object]] = []
    for name, case in CASES.items():
        runs = [make_run(case, seed) for seed in SEEDS]
        line: dict[str, object] = {"case": name, "accuracy": float(np.mean([run.metrics["accuracy"] for run in runs]))}
        line["own_columns_alone"] = float(np.mean([own_alone(run) for run in runs]))
        for column, attack in ATTACKS.items():
            found = [attack_run(run, read_attacks([attack]), seed=run.plan.seed)[0] for run in runs]
            line[column] = "" if found[0].reason else f"{np.mean([finding.value for finding in found]):.2g}"
        lines.append(line)
        print(line, file=sys.stderr)
        write_table("sum-differences.csv", "sum_differences", lines)


if __name__ == "__main__":
    measure()
