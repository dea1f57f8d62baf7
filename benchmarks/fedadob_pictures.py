"""The pictures of FedAdOb's pages: `python -m benchmarks.fedadob_pictures` (minutes; needs MNIST and Criteo).

In docs/images, passports-trade-off.png: accuracy against error over every method's settings, from results/fedadob
(FedAdOb's figure 4); passports-pictures.png: what attackers see of ten digits (figure 5); passports-scores.png: norm
and direction scores of gradients, by label (figure 6); these two train anew, in quick mode. horizontal-trade-off.png:
accuracy against error in horizontal learning, from results/fedadob-horizontal (figure 3).
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from cutlayer.auditing.attacking import attack_run
from cutlayer.experiment.store import Outcomes
from cutlayer.papers.fedadob import tables as fedadob
from cutlayer.papers.fedadob_horizontal import tables as fedadob_horizontal
from cutlayer.papers.job import Job
from cutlayer.papers.reading import read
from cutlayer.report.plots import COLOURS, MARKERS, reconstructions
from cutlayer.run import Run
from cutlayer.settings import read_attacks
from cutlayer.training import train_plan, using_threads

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs/images"
SHOWN = 10


def trained(job: Job) -> Run:
    """The training of a job, without its attacks."""
    unit = job.unit()
    return train_plan(unit.task(), unit.training.plan(), keep="last")


def guesses(run: Run, spelling: str) -> tuple[Any, float]:
    """What an attack guesses of its first rows, and its figure."""
    answers: list[Any] = []
    (finding,) = attack_run(
        run, read_attacks([spelling]), on_guess=lambda attack, guess, finding: answers.append(guess)
    )
    return answers[0], finding.value


def trade_offs() -> None:
    """Accuracy against error, a curve per method: three attackers of features, and three of labels."""
    outcomes = Outcomes(ROOT / "results/fedadob/paper.jsonl")
    known = {name: spelling for group in fedadob.attacks("mnist", False).values() for name, spelling in group.items()}
    panels = {
        "features": {
            "the paper's white box (WMI)": known["WMI"],
            "a decoder told 1,000 pairs": known["decoder, 1,000 pairs"],
            "the strongest on features": "strongest",
        },
        "labels": {
            "the paper's model completion (PMC)": known["PMC"],
            "gradient-clusters": known["gradient-clusters"],
            "the strongest on labels": "strongest",
        },
    }
    colour = {method: number for number, method in enumerate({**fedadob.HIDE_FEATURES, **fedadob.HIDE_LABELS})}
    figure = Figure(figsize=(13, 8.8), layout="constrained")
    for line, (target, attackers) in zip(figure.subplots(2, 3), panels.items(), strict=True):
        for axes, (title, attack) in zip(line, attackers.items(), strict=True):
            for method in fedadob.HIDE_FEATURES if target == "features" else fedadob.HIDE_LABELS:
                settings = fedadob.sweep("mnist", method, target, False)
                results = [outcomes.get(fedadob.job("mnist", setting, target, False).key) for setting in settings]
                points = [(read(o, f"error:{attack}"), read(o, "accuracy")) for o in results if o]
                number = colour[method]
                style: Mapping[str, Any] = {"color": COLOURS[number % 7], "marker": MARKERS[number % 7], "ms": 5}
                axes.plot(*zip(*points, strict=True), label=method, ls="-" if number < 7 else "--", **style)
            axes.set(title=title, xscale="log")
        line[0].set_ylabel("test accuracy, %")
        line[0].legend(frameon=False, fontsize=8, loc="lower left")
    for axes in figure.axes[:3]:  # the last points of sparsification (56%) and of label-dp (27%) lie below
        axes.set(xlabel="squared error per pixel (right: more private)", xlim=(2e-3, 0.6), ylim=(95, 99.6))
        axes.axvline(0.0634, color="grey", lw=0.8, ls="--")
        axes.text(0.0634, 95.3, " mean picture", color="grey", fontsize=8)
    for axes in figure.axes[3:]:
        axes.set(xlabel="share of wrong labels (right: more private)", xlim=(7e-4, 1.1), ylim=(88, 99.6))
    figure.savefig(IMAGES / "passports-trade-off.png", format="png", dpi=110, facecolor="white")


def pictures() -> None:
    """Originals, and what attackers make of their messages under each defence."""
    spelled = {
        name: spelling.replace("images=50", "images=20")
        for name, spelling in fedadob.attacks("mnist", True)["features"].items()
    }
    wmi, fitted, decoder = spelled["WMI"], spelled["WMI, passports fitted"], spelled["decoder, 1,000 pairs"]
    ignored = spelled["WMI, passports ignored"]
    passport = "passport:mean_range=50.0,variance=1.0"
    lines = {
        "no defence: WMI": ("none", wmi),
        "noise 0.2: WMI": ("gaussian-noise:std=0.2", wmi),
        "sparsification 0.1: WMI": ("sparsification:share=0.1,on=embedding", wmi),
        "InstaHide, k = 4: WMI": ("instahide:k=4", wmi),
        "passports ignored": (passport, ignored),
        "passports guessed": (passport, wmi),
        "passports fitted": (passport, fitted),
        "passports: decoder": (passport, decoder),
        "no defence: decoder": ("none", decoder),
    }
    runs = {d: trained(fedadob.job("mnist", d, "features", True)) for d in dict.fromkeys(d for d, _ in lines.values())}
    shown, notes, originals = {}, {}, np.zeros(0)
    for name, (defence, attack) in lines.items():
        guess, value = guesses(runs[defence], attack)
        features = next(iter(runs[defence].task.features.values())).values
        originals = features.index_select(0, guess.rows[:SHOWN]).to_dense().numpy()[:, 0]
        shown[name], notes[name] = guess.values[:SHOWN].reshape(-1, 28, 28).numpy(), f"error {value:.3f}"
    reconstructions(originals, shown, IMAGES / "passports-pictures.png", notes=notes)


def scores() -> None:
    """Norm and direction scores of the gradients on Criteo, by label."""
    chosen = ("none", "max-norm", "marvell", "passport")
    figure = Figure(figsize=(13, 3.6), layout="constrained")
    cells = {cell.method: cell.job for cell in fedadob.tables(True)["figure 6"]}
    for axes, method in zip(figure.subplots(1, len(chosen)), chosen, strict=True):
        run = trained(cells[method])
        norms, directions = (guesses(run, attack)[0] for attack in ("norm-score", "direction-score"))
        place = {int(row): number for number, row in enumerate(directions.rows)}
        both = [(n, place[int(row)]) for n, row in enumerate(norms.rows) if int(row) in place][:4000]
        x, y = norms.values[[n for n, _ in both]], directions.values[[d for _, d in both]]
        labels = run.task.labels[norms.rows[[n for n, _ in both]]]
        for value, colour, marker, name in ((0, COLOURS[1], ".", "no click"), (1, COLOURS[2], "x", "click")):
            axes.scatter(x[labels == value], y[labels == value], s=9, color=colour, marker=marker, lw=0.7, label=name)
        axes.set(xscale="log", xlabel="norm of the gradient", title=method)
    figure.axes[0].set_ylabel("cosine to a known click's gradient")
    figure.axes[0].legend(frameon=False, fontsize=8)
    figure.savefig(IMAGES / "passports-scores.png", format="png", dpi=110, facecolor="white")


def horizontal() -> None:
    """Accuracy against error in horizontal learning, a curve per method: four attackers, on digits and on CIFAR-10."""
    panels = {
        "pictures from gradients (the best WGI)": ("WGI", "WGI, L-BFGS", "WGI, passports fitted"),
        "the paper's white box (WMI)": ("WMI",),
        "passports fitted (WMI)": ("WMI, passports fitted", "WMI"),  # the latter where there is nothing to fit
        "a decoder told 1,000 pairs": ("decoder, 1,000 pairs",),
    }
    figure = Figure(figsize=(15, 8.6), layout="constrained")
    for line, dataset in zip(figure.subplots(2, len(panels)), ("mnist", "cifar10"), strict=True):
        for axes, (title, names) in zip(line, panels.items(), strict=True):
            for number, method in enumerate(fedadob_horizontal.SWEEPS):
                style: Mapping[str, Any] = {"color": COLOURS[number], "marker": MARKERS[number], "ms": 5}
                points, mean_picture = _settings(dataset, method, names)
                axes.plot(*zip(*points, strict=True), label=method, **style)
            axes.axvline(mean_picture, color="grey", lw=0.8, ls="--")
            axes.set(xlabel="squared error per pixel (right: more private)", title=title, xscale="log")
        line[0].set_ylabel(f"{dataset}: test accuracy, %")
        line[-1].set(xlim=(1.5e-3, 0.4))
    figure.axes[0].legend(frameon=False, fontsize=8, loc="lower left")
    figure.savefig(IMAGES / "horizontal-trade-off.png", format="png", dpi=110, facecolor="white")


def _settings(dataset: str, method: str, names: tuple[str, ...]) -> tuple[list[tuple[float, float]], float]:
    """Error and accuracy of each setting of a method, by the first attack that applies, or the best if the attacks are
    on gradients; and the error of the mean picture."""
    outcomes = Outcomes(ROOT / "results/fedadob-horizontal/paper.jsonl")
    known = fedadob_horizontal.attacks(dataset, False)
    shares = "private-bottom" if method == "passport" else "fedavg"
    points = []
    for setting in fedadob_horizontal.SWEEPS[method]:
        kinds = (fedadob_horizontal.job(dataset, setting, shares, e, False) for e in ("weights", "gradients"))
        whole, single = (outcomes[job.key] for job in kinds)
        seen = single if names[0] == "WGI" else whole
        spellings = [known[name] for name in names if known[name] in seen["attacks"]]
        errors = [error for spelling in spellings if (error := read(seen, f"error:{spelling}")) is not None]
        points.append((min(errors) if names[0] == "WGI" else errors[0], whole["metrics"]["accuracy"] * 100))
    return points, seen["attacks"][spellings[0]][0]["baseline"]


if __name__ == "__main__":
    with using_threads(1):
        trade_offs()
        horizontal()
        scores()
        pictures()
