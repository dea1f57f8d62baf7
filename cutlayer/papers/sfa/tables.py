"""SFA's table and figures: which jobs each needs, and the paper's values, of which it prints few.

Cai et al., arXiv:2207.00165, section 4; specification sfa, sections 5 and 8. Six fully connected layers of
width 256 with batch norm, ReLU and dropout between them; a bottom of height h has the first h of them, and what
follows the h-th comes after the cut, as in the paper. So methods differ in the cut alone: a sum is one first layer
over all columns (Centralized), SFA-NN adds W_mask to it, SplitNN concatenates. SFA runs with scheme=none,
the same messages in floats: test_secure_sum.py shows that encryption changes nothing in what is learned.

Differences from the paper: widths, the optimiser (Adam) and which columns go to whom are not stated there; 8
epochs instead of 50 and a learning rate of 0.001 instead of the best of several, with rows that show both; five
seeds instead of ten. Sector (LIBSVM) and Amazon Electronics could not be had: the one was out of reach, of the other
the paper used embeddings without saying how they were made. Of its figures it prints one number, 0.055 in figure 2.
"""

from collections.abc import Iterator
from dataclasses import replace

from cutlayer.papers.entry import Entry, by_table
from cutlayer.papers.job import Job
from cutlayer.papers.sfa.checks import EPOCHS
from cutlayer.settings import read_attacks

LAYERS = 6
CUTS = {"Centralized": "sum", "SplitNN": "concat", "SFA-NN": "secure-sum:scheme=none"}
ACCURACY = {"Centralized": 83.63, "SplitNN": 79.76, "SFA-NN": 83.86}  # table 2, News20
FAST = "lr=0.001"  # ten times the paper's: what an attacker would try next
OPEN = ("grn", f"grn:{FAST}")
MASKED = {
    "attack-1": "grn:reads=message",
    "attack-2": "grn:reads=sum",
    "attack-2, W_mask learned": "grn:reads=sum,learn_mask=true",
    "attack-2, W_mask learned, lr 0.001": f"grn:reads=sum,learn_mask=true,{FAST}",
}
GUESSES = ("zeros", "mean row", "uniform guess", "linear from own columns (control, told the training rows)")
REGRESSED = ("W_mask", "mask", "embeddings", "embeddings beyond own columns", "explained by own columns")


def images(quick: bool) -> str:
    """The dataset that is attacked."""
    return "digits" if quick else "fashion-mnist"


def heights(quick: bool) -> tuple[int, ...]:
    """Of the bottoms, in layers."""
    return (1, 3, 5) if quick else (1, 2, 3, 4, 5)


def job(dataset: str, method: str, height: int, quick: bool, parties: int = 2) -> Job:
    """The job behind a cell; attacks and checks are attached by rule, so that figures share trainings."""
    width = 64 if quick else 256
    layers = [str(width)] * (LAYERS - 1)
    between = "batch_norm=true,dropout=0.3"
    training = Job(
        data=dataset if parties == 2 else f"{dataset}:parties={parties}",
        bottom="linear" if height == 1 else f"mlp:hidden={'-'.join(layers[1:height])},{between}",
        top=f"relu-mlp:hidden={'-'.join(layers[height:]) or 'none'},{between}",
        width=width,
        cut=CUTS[method],
        epochs=15 if quick else 8,  # narrow layers learn more slowly
        batch_size=64 if dataset == "digits" else 256,
        weight_decay=0.0,
        drop_every=1000,  # never
    )
    return _attacked(training, method, height) if dataset == images(quick) else training


def _attacked(training: Job, method: str, height: int) -> Job:
    """GRN at heights 1, 3 and 5, under the open cut at all; baselines and what the paper leaves out at height 1."""
    odd = height % 2 == 1
    if method == "SplitNN":
        first = ("sfa:baselines", "sfa:grn_epochs")
        return replace(training, attacks=OPEN if odd else OPEN[:1], checks=first if height == 1 else ())
    first = ("sfa:mask_regression", "sfa:grn_epochs")
    return replace(training, attacks=tuple(MASKED.values()) if odd else (), checks=first if height == 1 else ())


def tables(quick: bool) -> dict[str, list[Entry]]:
    """Every table and figure, by its name."""
    return by_table(_entries(quick))


def _entries(quick: bool) -> Iterator[Entry]:
    for method, cut_at in (("Centralized", 1), ("SplitNN", 5), ("SFA-NN", 1)):
        yield from _table_2(method, job("newsgroups", method, cut_at, quick), quick)
    for method, cut_at in (("SplitNN", 5), ("SFA-NN", 1)):
        for parties in (2, 4) if quick else (2, 4, 6, 8):
            training = job("newsgroups", method, cut_at, quick, parties)
            yield Entry("figure 4", "newsgroups", method, f"{parties} parties", training)
        for dataset in ("newsgroups", images(quick)):
            for height in heights(quick):
                yield Entry("figure 5a", dataset, method, f"height {height}", job(dataset, method, height, quick))
    yield from _figure_2(quick)
    yield from _figure_5b(quick)
    yield from _beside(quick)


def _table_2(method: str, training: Job, quick: bool) -> Iterator[Entry]:
    def entry(setting: str, training: Job) -> Entry:
        return Entry("2", "newsgroups", method, setting, training, paper=ACCURACY[method])

    yield entry(f"{training.epochs} epochs", training)
    if not quick:
        yield entry("50 epochs", replace(training, epochs=50))
        yield entry("8 epochs, lr 0.01", replace(training, lr=0.01))


def _figure_2(quick: bool) -> Iterator[Entry]:
    """SplitNN's accuracy, and what GRN makes of its messages, by height."""
    for height in heights(quick):
        training = job(images(quick), "SplitNN", height, quick)
        paper = 0.055 if height == 1 else None
        yield Entry("figure 2", images(quick), "accuracy", f"height {height}", training)
        yield Entry("figure 2", images(quick), "GRN, squared error", f"height {height}", training, "attack:grn", paper)


def _figure_5b(quick: bool) -> Iterator[Entry]:
    """GRN's squared error by height, and guesses that read no message."""

    def entry(method: str, setting: str, training: Job, read: str) -> Entry:
        return Entry("figure 5b", images(quick), method, setting, training, read)

    split, secure = ({h: job(images(quick), m, h, quick) for h in (1, 3, 5)} for m in ("SplitNN", "SFA-NN"))
    for attack, note in zip(OPEN, ("", ", lr 0.001"), strict=True):
        for height, training in split.items():
            yield entry(f"SplitNN{note}", f"height {height}", training, f"attack:{attack}")
    for name, attack in MASKED.items():
        for height, training in secure.items():
            yield entry(f"SFA-NN, {name}", f"height {height}", training, f"attack:{attack}")
    for guess in GUESSES:
        yield entry(guess, "no message read", split[1], f"check:{guess}")


def _beside(quick: bool) -> Iterator[Entry]:
    """GRN's error as it trains, and W_mask by regression: height 1."""
    split, secure = (job(images(quick), method, 1, quick) for method in ("SplitNN", "SFA-NN"))
    attacks = {"SplitNN": ("grn", split)}
    attacks |= {f"SFA-NN, {name}": (attack, secure) for name, attack in MASKED.items() if FAST not in attack}
    for name, (attack, training) in attacks.items():
        (grn,) = read_attacks([attack])
        for epoch in EPOCHS:
            noted = f"check:{grn.describe()}, epoch {epoch}"
            yield Entry("grn-epochs", images(quick), name, f"epoch {epoch}", training, noted)
    for what in REGRESSED:
        yield Entry("mask", images(quick), what, "relative error", secure, f"check:{what}")
