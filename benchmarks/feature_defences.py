"""What hides a feature party's columns from a decoder with 1,000 known pairs, and what it costs."""

import csv
import io
import sys
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import mse_loss

import cutlayer as cl
from cutlayer.attacks.decoder import Decoder
from cutlayer.auditing import attack_run, secret_of
from cutlayer.data.task import Task
from cutlayer.defence import Defence, Local, Place
from cutlayer.imaging import predicted
from cutlayer.judge import grant
from cutlayer.metrics.baseline import best_values
from cutlayer.rng import Stream
from cutlayer.run import Run, write_text

RESULTS = Path(__file__).parent.parent / "results" / "feature-defences.csv"
SEEDS, PAIRS, ROWS, REPEATS, BATCH, WIDTH = range(3), 1000, 500, 10, 64, 16
#: Options of the dataset, epochs and learning rate.
TASKS: dict[str, tuple[dict[str, Any], int, float]] = {
    "mnist": ({"limit": 6000}, 6, 2e-3),
    "sensorless": ({}, 30, 5e-3),
    "covertype": ({"limit": 10000}, 12, 2e-3),
    "bank": ({"limit": 10000}, 8, 2e-3),
}
COLUMNS = ("dataset", "defence", "seed", "accuracy", "decoder mse", "low", "high", "baseline", "repeated", "joint",
           "seconds")  # fmt: skip


class Nothing(Defence):
    """A yardstick: embeddings of zero, so that the label party is left with its own columns."""

    def protect(self, payload: Tensor, local: Local) -> Tensor:
        """Send zeros."""
        return payload * 0 if local.place is Place.EMBEDDING else payload


def cases() -> dict[str, list[Defence]]:
    """Every case."""
    d = cl.defences
    return {"none": [], "zeros": [Nothing()]}


def measure(task: Task, defences: Sequence[Defence], seed: int) -> dict[str, Any]:
    """Accuracy of one training, and what the label party's decoders make of its messages."""
    start = perf_counter()
    _, epochs, rate = TASKS[task.name]
    recipe = cl.Recipe(epochs=epochs, batch_size=BATCH, lr=rate)
    run = cl.train(task, defences=defences, seed=seed, recipe=recipe, width=WIDTH, keep="ends")
    decoder = Decoder(pairs=PAIRS, images=None)
    found = attack_run(run, [decoder], seed=seed)[0]
    row = {"accuracy": run.metrics["accuracy"], "decoder mse": found.value, "low": found.low, "high": found.high}
    row |= {"baseline": found.baseline, **more(run, decoder, seed)}
    return row | {"seconds": perf_counter() - start}


def more(run: Run, decoder: Decoder, seed: int) -> dict[str, float]:
    """The decoder on means of ten predictions, and learners on messages and own columns together."""
    task = run.task
    label, victim = task.label_party, task.feature_parties[0]
    known = grant(decoder.asks, run.view(label, predict=task.test[:1]), secret_of(run), seed).features[victim]
    test = task.test

    def messages() -> Tensor:
        view = run.view(label, predict=torch.cat([known.rows, test]))
        return torch.cat([predicted(view, victim, rows)[1].flatten(1).float() for rows in (known.rows, test)])

    passes = [messages() for _ in range(2)]
    if fresh := not torch.equal(*passes):
        passes += [messages() for _ in range(REPEATS - 2)]
    truth = task.features[victim].values[test]
    assert isinstance(truth, Tensor)
    mean = torch.stack(passes).mean(dim=0)
    own = task.features[label].values
    assert isinstance(own, Tensor)
    both = torch.cat([passes[0], own[torch.cat([known.rows, test])].flatten(1)], dim=1)
    count = len(known.rows)
    found = {"joint": best_values(both[count:], both[:count], known, truth)[0]}
    if fresh:
        with Stream(seed, "repeated").scope():
            guess = decoder._learn(mean[:count], known.values)(mean[count:])
        found["repeated"] = float(mse_loss(guess, truth))
    return found
