"""Binary reconstruction: its counts, figures and our rows beside them, and the jobs that give them.

Ye et al., arXiv:2210.06771, section VI; specification binary-reconstruction, sections 5 and 6. The paper
prints the counts of exact columns; its figures have no numbers. Differences that hold for all cells:
30 epochs instead of 100 (covertype 5), the learning rate falling in proportion, one row each at 100 to
show that nothing changes; the first layer has no bias on either side; batch size, which the paper does
not give, is 128 (covertype 1,024).
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from cutlayer.papers.entry import Entry, by_table
from cutlayer.papers.job import Job


@dataclass(frozen=True)
class DatasetFacts:
    """What the paper says about a dataset: hidden layers, binary columns, and 0/1 vectors in their span."""

    hidden: tuple[int, ...]
    columns: int
    vectors: int


SETUPS = {
    "bank": DatasetFacts((60, 30, 10), 1, 1),
    "credit": DatasetFacts((100, 50, 20), 1, 1),
    "mushroom": DatasetFacts((300, 200, 100), 5, 5),
    "nursery": DatasetFacts((200, 100), 1, 1),
    "covertype": DatasetFacts((200, 200, 200), 4, 15),
}
NOISE = (0.1, 0.2, 0.3, 0.4, 0.5)
EXACT = ("binary-equations", "binary-search", "binary-search:visible=all")
NOISY = ("binary-regression", "binary-regression:basis=svd", "binary-search")
HIDDEN = ("binary-equations", "binary-regression:basis=svd,keep=5", "binary-unmask", "binary-search")
DEFENCES = {
    "none": EXACT,
    **{f"gaussian-noise:std={sigma}": NOISY for sigma in NOISE},
    "masquerade": HIDDEN,
    "column-noise": HIDDEN,
}


def job(dataset: str, defence: str, quick: bool, epochs: int | None = None) -> Job:
    """The training behind a cell, as the paper describes it."""
    setup = SETUPS[dataset]
    large = dataset == "covertype"
    epochs = epochs or (5 if large or quick else 30)
    first, *others = setup.hidden
    return Job(
        data=f"{dataset}:limit={20000 if large else 8000}" if quick and dataset != "mushroom" else dataset,
        bottom="linear",
        top=f"relu-mlp:hidden={'-'.join(map(str, others))}",
        width=first,
        cut="sum",
        defence=defence,
        epochs=epochs,
        batch_size=1024 if large else 128,
        lr=0.1,
        weight_decay=1e-4,
        optimiser="sgd",
        milestones=tuple(max(1, round(epochs * share)) for share in (0.3, 0.6, 0.9)),
        attacks=DEFENCES[defence],
        checks=("binary:conditions", *(["binary:fabricated"] if defence == "masquerade" else [])),
    )


def tables(quick: bool) -> dict[str, list[Entry]]:
    """Every table and figure, by its name."""
    return by_table(_entries(quick))


def _entries(quick: bool) -> Iterator[Entry]:
    for dataset, setup in SETUPS.items():
        yield from _undefended(dataset, setup, quick)
        yield from _figure_5(dataset, quick)
    clock = replace(job("nursery", "none", True, epochs=1), attacks=(), checks=("binary:times",))
    for method in ("naive loop", "meet in the middle", "binary-search"):
        for rank in (10, 12, 16, 20, 24, 28, 32, 40, 60, 80):
            if method == "binary-search" or rank <= 32:
                yield Entry("figure 4", "synthetic", method, f"{rank} columns", clock, f"check:{method}, {rank}")


def _undefended(dataset: str, setup: DatasetFacts, quick: bool) -> Iterator[Entry]:
    """Section VI-C: every binary column, exactly. The paper's counts, then ours."""
    training = job(dataset, "none", quick)

    def entry(method: str, setting: str, training: Job, read: str, paper: float | None = None) -> Entry:
        return Entry("columns", dataset, method, setting, training, read, paper)

    for attack in EXACT:
        yield entry(attack, "columns exact", training, f"exact:{attack}", setup.columns)
        yield entry(
            attack, "vectors claimed", training, f"claimed:{attack}", setup.vectors if attack == EXACT[0] else None
        )
        yield entry(attack, "seconds", training, f"seconds:{attack}")
    if not quick and dataset != "covertype":
        long = job(dataset, "none", quick, epochs=100)
        yield entry(EXACT[0], "columns exact, 100 epochs", long, f"exact:{EXACT[0]}", setup.columns)
        yield entry("without defence", "accuracy, 100 epochs", long, "accuracy")
    yield entry("without defence", "accuracy", training, "accuracy")
    yield entry("without defence", "smallest over largest weight", training, "check:weights")


def _figure_5(dataset: str, quick: bool) -> Iterator[Entry]:
    """Attack accuracy (b) and model accuracy (a) against noise; Masquerade and our defence beside it."""

    def entry(method: str, defence: str, read: str) -> Entry:
        return Entry("figure 5", dataset, method, defence, job(dataset, defence, quick), read)

    for defence, attacks in DEFENCES.items():
        yield entry("model", defence, "accuracy")
        for attack in attacks if defence != "none" else ():
            first = attack in NOISY[:2]  # the paper's measure: the one vector that Algorithm 2 returns
            yield entry(attack, defence, f"first:{attack}" if first else f"attack:{attack}")
    for defence in ("none", "masquerade") if not quick and dataset != "covertype" else ():
        long = replace(job(dataset, defence, quick, epochs=100), attacks=(), checks=())
        yield Entry("figure 5", dataset, "model, 100 epochs", defence, long)
    yield entry("commoner value (baseline)", "masquerade", "baseline:binary-equations")
    yield entry("Algorithm 1: solutions", "masquerade", "check:solutions")
    yield entry("Algorithm 1: the fabricated bit is one", "masquerade", "check:the bit")
