"""The first findings, on real data: what leaks undefended, beside what anyone could have guessed.

    CUTLAYER_DATA=... python -m benchmarks.first_findings

writes results/first-findings.csv (a row per defence, attack and seed) and a figure of
reconstructed digits. About ten minutes on two cores.

The inversion's defaults were chosen on MNIST and digits with the true images in view: its error is what a
tuned attacker reaches, not an independent test. Nothing is tuned to a defence.
"""

import sys
from typing import Any

import cutlayer as cl
from benchmarks.results import RESULTS, write_table
from cutlayer.models import named
from cutlayer.report.plots import reconstructions

SEEDS = range(3)


def label_scores() -> list[dict[str, Any]]:
    """Norm and direction of gradients against imbalanced binary labels, undefended and under max-norm."""
    rows = []
    recipe = cl.Recipe(epochs=5, batch_size=1024, lr=1e-3)
    for task in (cl.data.bank(), cl.data.criteo(preparation="dcn")):
        report = cl.audit(
            task,
            defences={"none": [], "max-norm": [cl.defences.MaxNorm()]},
            attacks=[cl.attacks.NormScore(), cl.attacks.DirectionScore()],
            seeds=SEEDS,
            progress=say,
            recipe=recipe,
        )
        rows += [{"task": task.name, **row} for row in report.rows]
    return rows


def completion() -> list[dict[str, Any]]:
    """Model completion with 40 labels on MNIST's right half, with and without MixMatch."""
    report = cl.audit(
        cl.data.mnist(parties=2),
        defences={"none": []},
        attacks=[cl.attacks.ModelCompletion(labels=40), cl.attacks.ModelCompletion(labels=40, ssl=True)],
        seeds=SEEDS,
        progress=say,
        recipe=cl.Recipe(epochs=5, batch_size=256, lr=1e-3),
    )
    return [{"task": "mnist", **row} for row in report.rows]


def inversion() -> list[dict[str, Any]]:
    """White-box inversion of a LeNet's feature maps: the label party sees no pixel, only the message."""
    task = cl.data.mnist(parties=1, label_party="server")
    guesses: dict[str, Any] = {}

    def keep(name: str, seed: int, attack: cl.Attack, guess: cl.Guess, finding: cl.Finding) -> None:
        if seed == SEEDS[0]:
            values = task.features["party1"].values.index_select(0, guess.rows[:10])
            guesses["originals"] = values.to_dense()[:, 0].numpy()
            guesses[f"{name}: error {finding.value:.3f}, mean image {finding.baseline:.3f}"] = guess.values[
                :10, 0
            ].numpy()

    report = cl.audit(
        task,
        defences={"none": [], "gaussian noise, std 1": [cl.defences.GaussianNoise(std=1.0)]},
        attacks=[cl.attacks.ModelInversion(images=100)],
        seeds=SEEDS,
        progress=say,
        on_guess=keep,
        bottoms=named.bottom("lenet:flat=false"),
        recipe=cl.Recipe(epochs=2, batch_size=128, lr=1e-3),
    )
    originals = guesses.pop("originals")
    reconstructions(originals, guesses, RESULTS / "inversion.png")
    return [{"task": "mnist", **row} for row in report.rows]


def say(text: str) -> None:
    """Progress, on standard error."""
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    """Run everything and write one table."""
    rows = label_scores() + completion() + inversion()
    write_table("first-findings.csv", "first_findings", rows)
    for row in rows:
        print(*(row[key] for key in ("task", "defence", "metric", "value", "baseline", "attack")))


if __name__ == "__main__":
    main()
