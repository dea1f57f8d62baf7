"""What hides a feature party's columns from a decoder with 1,000 known pairs, and what it costs.

    CUTLAYER_DATA=... python -m benchmarks.feature_defences [dataset ...]

writes results/feature-defences.csv: per dataset, defence and seed the model's test accuracy and, over all test rows,
- "decoder mse": the squared error of attack decoder, with its 95% interval ("low", "high");
- "baseline": the least error without messages, of learners on the label party's own columns and the same pairs;
- "repeated": the decoder's error on the mean of ten predictions of every row, where they differ;
- "joint": the same learners as for the baseline, given the message beside the own columns. A decoder reads messages
  alone and may stay above the baseline although they add to what own columns tell; this says whether they do.

Rows that are in the file already are kept: delete it to measure anew. Half an hour on one core.

Two parties, the first holds the labels and its half of the columns. "zeros" sends nothing: what is lost then is all
that messages bring. Settings were looked at with seed 9 before. Ideas of that trial which failed are not here: see
docs/explanation-features.md, whose table is printed at the end.
"""

import sys
from collections.abc import Sequence
from time import perf_counter
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import mse_loss

import cutlayer as cl
from benchmarks.results import markdown, read_table, write_table
from cutlayer.attacks.decoder import Decoder
from cutlayer.attacks.tools.reading import predicted
from cutlayer.auditing.attacking import attack_run
from cutlayer.auditing.secret import secret_of
from cutlayer.data.task import Task
from cutlayer.defence import Defence, Local, Place
from cutlayer.judge import grant
from cutlayer.metrics.baseline import best_values
from cutlayer.recipe import Cosine
from cutlayer.rng import Stream
from cutlayer.run import Run

RESULTS = "feature-defences.csv"
SEEDS, PAIRS, REPEATS, BATCH, WIDTH = range(3), 1000, 10, 64, 16
#: Options of the dataset, epochs and learning rate.
TASKS: dict[str, tuple[dict[str, Any], int, float]] = {
    "mnist": ({"limit": 4000}, 8, 2e-3),
    "sensorless": ({}, 30, 5e-3),
    "covertype": ({"limit": 10000}, 12, 2e-3),
    "bank": ({"limit": 10000}, 8, 2e-3),
}
COLUMNS = ("dataset", "defence", "seed", "accuracy", "decoder mse", "low", "high", "baseline", "repeated", "joint",
           "seconds")  # fmt: skip


class Zeros(Defence):
    """A yardstick: embeddings of zero, so that the label party is left with its own columns."""

    def protect(self, payload: Tensor, local: Local) -> Tensor:
        """Send zeros."""
        return payload * 0 if local.place is Place.EMBEDDING else payload


def cases() -> dict[str, list[Defence]]:
    """Every case; those that stayed in the running come first."""
    d = cl.defences
    return {
        "none": [],
        "zeros": [Zeros()],
        "vote": [d.Vote()],
        "vote:pull=1": [d.Vote(pull=1.0)],
        **{f"hash:bits={bits}": [d.Hash(bits=bits)] for bits in (4, 8)},
        "mutual-information": [d.MutualInformation()],
        "vote:pull=0": [d.Vote(pull=0.0)],
        "hash:bits=16": [d.Hash(bits=16)],
        "hash:bits=8 + passport": [d.Hash(bits=8), d.Passport(where="bottom")],
        "distance-correlation": [d.DistanceCorrelation()],
        "gaussian-noise:std=1": [d.GaussianNoise(std=1.0)],
    }


#: Out of the running after a trial: measured on one seed.
ONCE = ("vote:pull=0", "hash:bits=16", "hash:bits=8 +", "distance", "gaussian")


def measure(task: Task, defences: Sequence[Defence], seed: int) -> dict[str, Any]:
    """Accuracy of one training, and what the label party's decoders make of its messages."""
    start = perf_counter()
    _, epochs, rate = TASKS[task.name]
    recipe = cl.Recipe(epochs=epochs, batch_size=BATCH, lr=rate, schedule=Cosine())
    run = cl.train(task, defences=defences, seed=seed, recipe=recipe, width=WIDTH, keep="ends")
    decoder = Decoder(pairs=PAIRS)
    finding = attack_run(run, [decoder], seed=seed)[0]
    row = {"accuracy": run.metrics["accuracy"], "decoder mse": finding.value, "low": finding.low, "high": finding.high}
    row |= {"baseline": finding.baseline, **other_readers(run, decoder, seed)}
    return row | {"seconds": perf_counter() - start}


def other_readers(run: Run, decoder: Decoder, seed: int) -> dict[str, float]:
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
    joined = torch.cat([passes[0], own[torch.cat([known.rows, test])].flatten(1)], dim=1)
    count = len(known.rows)
    errors = {"joint": best_values(joined[count:], joined[:count], known, truth)[0]}
    if fresh:
        with Stream(seed, "repeated").scope():
            guess = decoder._learn(mean[:count], known.values)(mean[count:])
        errors["repeated"] = float(mse_loss(guess, truth))
    return errors


def table(rows: list[dict[str, Any]]) -> str:
    """Markdown: per dataset accuracy, the decoder's error, and that of learners with own columns besides."""
    names = [name for name in TASKS if any(row["dataset"] == name for row in rows)]
    cells: dict[str, dict[str, str]] = {"no message": {}}
    for name in names:
        measured = [row for row in rows if row["dataset"] == name]
        cells["no message"][name] = f"{np.mean([float(row['baseline']) for row in measured]):.4f}"
        for case in dict.fromkeys(row["defence"] for row in measured):
            same = [row for row in measured if row["defence"] == case]
            figures = [
                float(np.mean([float(row[key]) for row in same])) for key in ("accuracy", "decoder mse", "joint")
            ]
            cells.setdefault(case, {})[name] = "{:.3f}, {:.4f}, {:.4f}".format(*figures)
    return markdown(["", *names], ([case, *(row.get(name, "") for name in names)] for case, row in cells.items()))


def main(chosen: list[str]) -> None:
    """Measure what is not in the file yet."""
    torch.set_num_threads(1)
    rows: list[dict[str, Any]] = [*read_table(RESULTS)]
    done = {(row["dataset"], row["defence"], int(row["seed"])) for row in rows}
    for name in chosen:
        task = cl.data.load(name, parties=2, **TASKS[name][0])
        for case, defences in cases().items():
            for seed in SEEDS[:1] if case.startswith(ONCE) else SEEDS:
                if (name, case, seed) in done:
                    continue
                row = {"dataset": name, "defence": case, "seed": seed, **measure(task, defences, seed)}
                rows.append(row)
                print(*(rows[-1].get(key, "") for key in COLUMNS), file=sys.stderr, flush=True)
                write_table(RESULTS, "feature_defences", rows, COLUMNS)
    print(table(rows))


if __name__ == "__main__":
    main(sys.argv[1:] or [*TASKS])
