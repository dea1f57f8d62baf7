"""What hides labels from a feature party, and what it costs: ours, what exists, and what failed.

    CUTLAYER_DATA=... python -m benchmarks.label_defences [dataset ...]

writes results/label-defences.csv: per dataset, defence and seed the model's test accuracy, what each attack makes of
the training labels, and the baseline (own columns and the same 40 labels). Datasets that are named replace their own
rows. Half an hour to an hour on one core.

Two parties hold half of the columns each and a third holds labels only, so that all accuracy comes through the cut.
The first party attacks. It sees the first epoch and the last four, and "leakage" is the best of
- gradient-clusters on the first epoch, and on all five with components per epoch or the same for all;
- model-completion;
- "denoised", no attack of the library but a yardstick: a model of own columns taught the guesses of gradient-clusters,
  out of fold, and added to them with the weight that turns out best on the truth. It undoes randomised labels.

What bottoms teach themselves (self-taught) was chosen by the test accuracy of seeds 0 and 1 on all of these but higgs;
the seeds here are others. Rows named "private head" predict with a top that is taught the true labels on the
embeddings of the finished bottoms; messages, and so attacks, are those of the defence itself. Rows without attacks
on labels show more data, and a label party with columns of its own ("alone": with nothing else); "columns_error" is the
squared error of decoder, the label party's attack on columns, beside the best guess without messages. The table of
docs/explanation-labels.md is printed at the end.
"""

import sys
from typing import Any

import numpy as np
import torch
from torch.nn.functional import cross_entropy

import cutlayer as cl
from benchmarks.label_denoising import denoised
from benchmarks.label_ideas import Alone, FewRows, Groups, OneLine, Pooled, Smooth
from benchmarks.results import markdown, read_table, write_table
from cutlayer.attack import Attack, Guess
from cutlayer.attacks.gradient_clusters import GradientClusters
from cutlayer.attacks.tools.reading import predicted
from cutlayer.auditing.attacking import attack_run
from cutlayer.auditing.secret import secret_of
from cutlayer.data.task import Task
from cutlayer.defence import Defence
from cutlayer.finding import Finding
from cutlayer.judge import grant
from cutlayer.models import named
from cutlayer.models.defaults import default_top
from cutlayer.rng import Stream
from cutlayer.run import Run
from cutlayer.transcript import Keep, Policy

RESULTS = "label-defences.csv"
SEEDS, KNOWN, BATCH, SEEN = range(3, 6), 40, 64, 5
#: Options of the dataset, epochs and learning rate.
TASKS: dict[str, tuple[dict[str, Any], int, float]] = {
    "sensorless": ({}, 30, 5e-3),
    "digits": ({}, 20, 2e-3),
    "mnist": ({"limit": 2000}, 12, 2e-3),
    "covertype": ({"limit": 4000}, 12, 2e-3),
    "criteo": ({"limit": 4000, "preparation": "vflrecon"}, 12, 2e-3),
    "bank": ({"limit": 4000}, 12, 2e-3),
    "higgs": ({"limit": 4000}, 12, 2e-3),
}
#: No attack on labels: more rows, and a label party that holds the first half of the columns.
MORE: dict[str, tuple[str, dict[str, Any]]] = {
    "covertype, 40000 rows": ("covertype", {"limit": 40_000, "label_party": "server"}),
    **{f"{name}, own columns": (name, TASKS[name][0]) for name in ("sensorless", "digits", "covertype")},
}
COLUMNS = (
    "dataset", "defence", "seed", "accuracy", "baseline", "leakage", "clusters_first", "clusters_fused",
    "clusters_pooled", "completion", "denoised", "direction_auc", "columns_error", "columns_baseline", "notes",
)  # fmt: skip


def cases() -> dict[str, list[Defence]]:
    """Every case."""
    d = cl.defences
    return {
        "none": [],
        "self-taught": [d.SelfTaught()],
        "self-taught:teach=alike": [d.SelfTaught(teach="alike")],
        "self-taught:teach=nothing": [d.SelfTaught(teach="nothing")],
        **{f"dp-sgd:noise={noise}": [d.DpSgd(noise=noise)] for noise in (1.0, 3.3)},
        "dp-sgd:where=logits": [d.DpSgd(where="logits")],
        **{f"label-dp:epsilon={epsilon}": [d.LabelDP(epsilon=epsilon)] for epsilon in (1.0, 2.0)},
        "max-norm": [d.MaxNorm()],
        "marvell:scale=4.0": [d.Marvell(scale=4.0, many="one-vs-rest")],
        "smoothed labels": [Smooth()],
        "groups of four": [Groups()],
        "one line": [OneLine()],
        "a tenth of the rows": [FewRows()],
    }


WITH_HEAD = ("label-dp", "dp-sgd:where=logits", "a tenth")


def attacks(classes: int) -> dict[str, Attack]:
    """The library's attacks."""
    tried: dict[str, Attack] = {
        "clusters_first": GradientClusters(labels=KNOWN, epochs=1),
        "clusters_fused": GradientClusters(labels=KNOWN),
        "clusters_pooled": Pooled(labels=KNOWN),
        "completion": cl.attacks.ModelCompletion(labels=KNOWN),
    }
    return tried | ({"direction_auc": cl.attacks.DirectionScore(positives=5)} if classes == 2 else {})


def make_run(task: Task, defences: list[Defence], seed: int) -> Run:
    """Train, and keep what the attacker sees."""
    _, epochs, rate = TASKS[task.name]
    steps = -(-len(task.train) // BATCH)
    kept = {*range(steps), *range((epochs - SEEN + 1) * steps, epochs * steps)}
    options: dict[str, Any] = {"bottoms": named.bottom("mlp:hidden=64")} if task.name == "mnist" else {}
    recipe = cl.Recipe(epochs=epochs, batch_size=BATCH, lr=rate)
    return cl.train(
        task, defences=defences, seed=seed, recipe=recipe, keep=Keep(Policy.STEPS, frozenset(kept)), **options
    )


def measure(task: Task, case: str, defences: list[Defence], seed: int) -> list[dict[str, Any]]:
    """Accuracy and leakage of one training; and once more with a private head."""
    run, tried = make_run(task, defences, seed), attacks(len(task.classes))
    guesses: list[Guess] = []

    def keep(attack: Attack, guess: Guess, finding: Finding) -> None:
        if isinstance(attack, GradientClusters):
            guesses.append(guess)

    findings = attack_run(run, list(tried.values()), seed=seed, on_guess=keep)
    row: dict[str, Any] = {"dataset": task.name, "defence": case, "seed": seed, "accuracy": run.metrics["accuracy"]}
    row |= {name: finding.value for name, finding in zip(tried, findings, strict=True)}
    known = grant(tried["clusters_first"].asks, run.view(task.feature_parties[0]), secret_of(run), seed).labels
    assert known is not None
    row |= {"baseline": findings[0].baseline, "denoised": max(denoised(task, guess, known.rows) for guess in guesses)}
    row["leakage"] = max(row[k] for k in row if k.startswith("clusters") or k in ("completion", "denoised"))
    row["notes"] = "; ".join(run.notes())
    if not case.startswith(WITH_HEAD):
        return [row]
    return [row, row | {"defence": f"{case}, private head", "accuracy": private_head(run, seed)}]


def private_head(run: Run, seed: int) -> float:
    """Test accuracy of a top taught the true labels on what the finished bottoms say."""
    task, label = run.task, run.task.label_party
    rows = torch.cat([task.train, task.test])
    view = run.view(label, predict=rows)
    joint = torch.cat([predicted(view, name, rows)[1] for name in task.feature_parties], dim=1)
    order = predicted(view, task.feature_parties[0], rows)[0]
    labels = task.labels[order]
    training = torch.isin(order, task.train).nonzero()[:, 0]
    _, epochs, rate = TASKS[task.name]
    with Stream(seed, "private head").scope():
        head = default_top(joint.shape[1], len(task.classes))
        optimiser = torch.optim.Adam(head.parameters(), lr=rate)
        for _ in range(epochs):
            for batch in training[torch.randperm(len(training))].split(BATCH):
                optimiser.zero_grad()
                cross_entropy(head(joint[batch]), labels[batch]).backward()
                optimiser.step()
    test = torch.isin(order, task.test)
    with torch.no_grad():
        return float((head(joint[test]).argmax(dim=1) == labels[test]).double().mean())


def unattacked(name: str) -> list[dict[str, Any]]:
    """Accuracy under what is left of the contest, and what the label party makes of a feature party's columns."""
    dataset, options = MORE[name]
    task = cl.data.load(dataset, parties=2, **options)
    few = ("none", "self-taught", "self-taught:teach=alike", "self-taught:teach=nothing", "dp-sgd:noise=3.3")
    chosen = {case: cases()[case] for case in few} | ({} if "rows" in name else {"alone": [Alone()]})
    rows = []
    for case, defences in chosen.items():
        for seed in SEEDS:
            run = make_run(task, defences, seed)
            row = {"dataset": name, "defence": case, "seed": seed, "accuracy": run.metrics["accuracy"]}
            finding = attack_run(run, [cl.attacks.Decoder(pairs=500)], seed=seed)[0]
            rows.append(row | {"columns_error": finding.value, "columns_baseline": finding.baseline})
        print(name, case, f"{row['accuracy']:.3f} {finding.value:.4f}", file=sys.stderr, flush=True)
    return rows


def attacked(name: str) -> list[dict[str, Any]]:
    """All cases on one dataset."""
    task = cl.data.load(name, parties=2, label_party="server", **TASKS[name][0])
    rows = []
    for case, defences in cases().items():
        for seed in SEEDS:
            rows += measure(task, case, defences, seed)
        last = rows[-1]
        print(name, last["defence"], f"{last['accuracy']:.3f} {last['leakage']:.3f}", file=sys.stderr, flush=True)
    return rows


def table(rows: list[dict[str, Any]]) -> str:
    """Markdown: accuracy, and by how many points the best attack beats what it reaches on messages of zeros."""
    names = [name for name in TASKS if any(row["dataset"] == name for row in rows)]
    cells: dict[str, dict[str, str]] = {"nothing but own columns and 40 labels": {}}
    for name in names:
        measured = [row for row in rows if row["dataset"] == name]
        silent = [row for row in measured if row["defence"] == "self-taught:teach=nothing"]
        floor = {str(row["seed"]): max(float(row["baseline"]), float(row["leakage"])) for row in silent}
        cells["nothing but own columns and 40 labels"][name] = f"{np.mean(list(floor.values())):.2f}"
        for case in dict.fromkeys(row["defence"] for row in measured):
            same = [row for row in measured if row["defence"] == case]
            accuracy = np.mean([float(row["accuracy"]) for row in same])
            excess = np.mean([max(0.0, float(row["leakage"]) - floor[str(row["seed"])]) for row in same])
            cells.setdefault(case, {})[name] = f"{accuracy:.3f}, +{100 * excess:.0f}"
    return markdown(["", *names], ([case, *(row.get(name, "") for name in names)] for case, row in cells.items()))


def main(chosen: list[str]) -> None:
    """Measure, and write the rows of these datasets beside those of the others."""
    torch.set_num_threads(1)
    rows: list[dict[str, Any]] = [row for row in read_table(RESULTS) if row["dataset"] not in chosen]
    for name in chosen:
        rows += unattacked(name) if name in MORE else attacked(name)
        write_table(RESULTS, "label_defences", rows, COLUMNS)
    print(table(rows))


if __name__ == "__main__":
    main(sys.argv[1:] or [*TASKS, *MORE])
