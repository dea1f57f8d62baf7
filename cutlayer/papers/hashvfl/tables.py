"""HashVFL's tables and figures: which jobs each needs, and the paper's value of every cell.

Qiu et al., arXiv:2212.00325; specification hashvfl, sections 3 to 5. Differences from the paper
that hold for all cells: image bottoms are trained from scratch (no ImageNet weights); the last
partial batch is kept in training and test (the published code drops it but divides by all rows);
Adam keeps its moments between epochs and rows are shuffled anew in every epoch (the published
code does neither); MNIST trains for 15 epochs and CIFAR-10 for 10, not 30, the learning rate
falling in proportion. FER and IMDb are not run; CIFAR-100 (Table IX) cannot be had.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import product

from cutlayer.papers.entry import Entry, by_table
from cutlayer.papers.job import Job

LENGTHS = (4, 8, 16, 32, 64, 128)
IMAGES = ("mnist", "cifar10")
VICTIM = "party1"  # as in the paper, whose columns are attacked: the first feature party
COMPLETION = "model-completion:labels={labels},on={on}"
CONTROLS = ("DCOR against noise", "DCOR, pictures of other classes", "MSE", "MSE of the class mean")
STEPS = (("1", "0.1"), ("1", "1"), ("2", "0.1"), ("2", "1"))  # bound, step size


# Tables VII (epsilon 1, 2, 10), VIII and X, as printed: accuracy in percent by code length.
HASH = {
    "mnist": (97.75, 98.34, 98.42, 98.59, 98.42, 98.57),
    "cifar10": (70.83, 73.65, 74.96, 76.14, 75.34, 75.03),
    "bankruptcy": (70.98, 76.62, 77.35, 77.95, 81.64, 85.00),
    "criteo": (73.70, 73.13, 73.32, 74.08, 74.48, 74.67),
}
NOISY = {
    "mnist": ((34.28, 61.73, 97.26), (45.65, 80.34, 97.95), (65.62, 93.35, 98.21)),
    "cifar10": ((26.89, 44.76, 69.11), (33.54, 57.40, 72.99), (47.08, 68.73, 74.23)),
    "bankruptcy": ((58.56, 66.06, 70.38), (61.99, 67.85, 75.68), (63.96, 69.44, 76.64)),
    "criteo": ((64.04, 70.18, 73.82), (64.55, 71.03, 72.74), (66.81, 72.31, 74.03)),
}
GREEDY = {
    "mnist": (96.24, 97.17, 97.82),
    "cifar10": (55.53, 63.57, 61.52),
    "bankruptcy": (61.57, 63.13, 62.42),
    "criteo": (63.21, 66.94, 68.63),
}
UNNORMALISED = {
    "mnist": (96.75, 97.24, 97.02),
    "cifar10": (60.44, 63.24, 60.26),
    "bankruptcy": (48.74, 49.89, 48.56),
    "criteo": (49.76, 49.93, 49.94),
}
SHORTEST = {  # Table II: without and with defence, at the fewest bits
    "mnist": (98.99, 97.75),
    "cifar10": (76.22, 70.83),
    "bankruptcy": (50.30, 69.34),
    "criteo": (70.72, 72.94),
}
COMPLETED = {  # Table III: head on the undefended embedding, head on the code
    "bankruptcy": (62.41, 63.17),
    "criteo": (72.31, 69.17),
    "mnist": (95.05, 85.24),
    "cifar10": (70.13, 69.93),
}
FORCED = {"mnist": ((85, 0), (74, 64), (1, 0), (1, 1)), "cifar10": ((76, 0), (66, 85), (98, 0), (95, 64))}  # Table V
DETECTED = {"mnist": (1.31, 2.38), "cifar10": (1.59, 2.27), "bankruptcy": (1.94, 4.00), "criteo": (1.94, 4.00)}
RECONSTRUCTED = {"mnist": (11.58, 0.0157, 0.8757), "cifar10": (340.56, 0.0620, 0.8540)}  # Table IV


def datasets(quick: bool) -> list[str]:
    """The datasets that are run, tables both raw and scaled."""
    tables = ["bankruptcy", "bankruptcy scaled", "criteo", "criteo scaled"]
    return [*(("digits", "mnist") if quick else IMAGES), *tables]


def job(dataset: str, defence: str, bits: int, quick: bool) -> Job:
    """The job behind a cell; attacks and checks are attached by rule, so that tables share trainings."""
    name, _, scaled = dataset.partition(" ")
    options = ["label_party=server"] + (["scaled=true"] if scaled else [])
    if quick and name in ("mnist", "criteo"):
        options.append("limit=6000" if name == "mnist" else "limit=20000")
    image = name in IMAGES
    bottom = ("lenet" if quick else "resnet18:max_pool=true") if image else "mlp:hidden=32"
    epochs = 5 if quick and image else {"mnist": 15, "cifar10": 10}.get(name, 30)
    training = Job(
        data=f"{name}:{','.join(options)}",
        bottom=bottom,
        top="mlp:hidden=16",
        width=bits,
        defence=defence,
        epochs=epochs,
        batch_size=64 if quick and name in ("digits", "mnist") else 256,
        drop_every=max(1, epochs // 3),
    )
    plain = defence in ("none", f"hash:bits={bits}", f"hash:bits={bits},targets=private")
    if plain and bits == 16:
        training = replace(training, attacks=_attacks(name, defence))
        if defence == "hash:bits=16" and _pictures(name):
            training = replace(training, checks=("hashvfl:alarms",))
    if defence == f"hash:bits={bits}" and bits <= 16:
        detected = ("hashvfl:detection",) if bits == 4 else ()
        rebuilt = ("hashvfl:reconstruction",) if bits >= 4 and _pictures(name) else ()
        training = replace(training, checks=training.checks + detected + rebuilt)
    return training


def _attacks(name: str, defence: str) -> tuple[str, ...]:
    """Label attacks of Table III and ours beside it; Table V on the sets of ten classes."""
    labels = 40 if _pictures(name) else 100
    on = ["bottom"] if defence == "none" else ["bottom", "messages"]
    chosen = [COMPLETION.format(labels=labels, on=o) for o in on]
    if defence != "none":
        chosen.append("nearest-code")
    if _pictures(name):
        scales = ("paper", "embeddings") if defence == "none" else ("paper",)
        chosen += [f"pgd:bound={b},step={s},scale={scale}" for (b, s), scale in product(STEPS, scales)]
        chosen += ["pgd:choose=seen-codes"] if defence != "none" else []
        chosen += [f"decoder:images=1000,reads={reads}" for reads in ("message", "label", "class-mean")]
    return tuple(chosen)


def tables(quick: bool) -> dict[str, list[Entry]]:
    """Every table and figure that can be run, by its name."""
    return by_table(_entries(quick))


def _entries(quick: bool) -> Iterator[Entry]:
    for dataset in datasets(quick):
        yield from _accuracy(dataset, quick)
        yield from _table_3(dataset, quick)
        if _pictures(dataset):
            yield from _table_5(dataset, quick)
            yield from _table_4(dataset, quick)
        yield from _table_6(dataset, quick)
        yield from _figures(dataset, quick)


def _pictures(dataset: str) -> bool:
    """Whether its rows are pictures of ten classes."""
    return dataset.split()[0] in (*IMAGES, "digits")


def _value(table: Mapping[str, tuple[float, ...]], dataset: str, index: int) -> float | None:
    return table[dataset][index] if dataset in table else None


def _accuracy(dataset: str, quick: bool) -> Iterator[Entry]:
    """Tables II, VII, VIII and X."""
    shortest = 4 if _pictures(dataset) else 1

    def entry(table: str, method: str, defence: str, bits: int, paper: float | None, setting: str = "") -> Entry:
        spelling = defence.format(bits=bits)
        reading = "code" if "reading=code" in spelling else "paper"
        setting = setting or f"{bits} bits"
        return Entry(table, dataset, method, setting, job(dataset, spelling, bits, quick), "accuracy", paper, reading)

    only_norm = "hash:bits={bits},sign=false,consistency=false"
    yield entry("2", "without defence", "none", shortest, _value(SHORTEST, dataset, 0))
    yield entry("2", "batch norm, no sign", only_norm, shortest, None)
    yield entry("2", "hash", "hash:bits={bits}", shortest, _value(SHORTEST, dataset, 1))
    for index, bits in enumerate(LENGTHS):
        yield entry("8", "hash", "hash:bits={bits}", bits, _value(HASH, dataset, index))
        yield entry("8", "batch norm, no sign", only_norm, bits, None)
        if bits <= 16:
            yield entry("8", "without defence", "none", bits, None)
    for index, bits in enumerate(LENGTHS[:3]):
        for place, epsilon in enumerate((1, 2, 10)):
            paper = NOISY[dataset][index][place] if dataset in NOISY else None
            setting = f"{bits} bits, epsilon {epsilon}"
            yield entry("7", "hash", f"hash:bits={{bits}},epsilon={epsilon}", bits, paper, setting)
        yield entry("7", "hash", "hash:bits={bits}", bits, _value(HASH, dataset, index), f"{bits} bits, no noise")
        yield entry("7", "batch norm, no sign", only_norm, bits, None, f"{bits} bits, no noise")
        yield entry("10", "hash", "hash:bits={bits}", bits, _value(HASH, dataset, index))
        yield entry(
            "10", "hash, no batch norm", "hash:bits={bits},normalise=false", bits, _value(UNNORMALISED, dataset, index)
        )
        yield entry("10", "greedy hash", "greedy-hash:bits={bits},reading=code", bits, _value(GREEDY, dataset, index))
        yield entry("10", "greedy hash, as its own paper", "greedy-hash:bits={bits}", bits, None)
        yield entry("10", "batch norm, no sign", only_norm, bits, None)


def _attacked(dataset: str, quick: bool) -> tuple[Job, Job, Job]:
    """Without defence, hashed, and hashed with target codes of each party's own: the trainings that are attacked."""
    defences = ("none", "hash:bits=16", "hash:bits=16,targets=private")
    base, hashed, private = (job(dataset, defence, 16, quick) for defence in defences)
    return base, hashed, private


def _table_3(dataset: str, quick: bool) -> Iterator[Entry]:
    """Labels, by completing the bottom or by the target codes."""
    base, hashed, private = _attacked(dataset, quick)
    labels = 40 if _pictures(dataset) else 100
    bottom, messages = (COMPLETION.format(labels=labels, on=on) for on in ("bottom", "messages"))
    for method, training, attack, index in (
        ("undefended, head on the embedding", base, bottom, 0),
        ("hash, head on the code", hashed, messages, 1),
        ("hash, head on what precedes the code", hashed, bottom, None),
        ("hash, nearest target code, no labels", hashed, "nearest-code", None),
        ("hash with private target codes, head on the code", private, messages, None),
        ("hash with private target codes, nearest target code", private, "nearest-code", None),
    ):
        paper = None if index is None else _value(COMPLETED, dataset, index)
        yield Entry("3", dataset, method, f"{labels} labels", training, f"attack:{attack}", paper)
    yield Entry("3", dataset, "own columns only (baseline)", f"{labels} labels", base, f"baseline:{bottom}")


def _table_4(dataset: str, quick: bool) -> Iterator[Entry]:
    """Pictures, from class codes by inversion and from messages by a decoder."""
    for bits in LENGTHS[:3]:
        training = job(dataset, f"hash:bits={bits}", bits, quick)
        printed = {
            figure: _value(RECONSTRUCTED, dataset, index) for index, figure in enumerate(("KLD", "SSIM", "DCOR"))
        }
        for figure in (*printed, *CONTROLS):
            method = f"class code inverted, {figure}"
            yield Entry("4", dataset, method, f"{bits} bits", training, f"check:{figure}", printed.get(figure))
    methods = ("undefended", "hash", "hash, private target codes")
    for method, training in zip(methods, _attacked(dataset, quick), strict=True):
        for reads in ("message", "label", "class-mean"):
            decoder = f"{method}: decoder from {reads}, MSE"
            read = f"attack:decoder:images=1000,reads={reads}"
            yield Entry("4", dataset, decoder, "16 bits, 1000 pairs", training, read, victim=VICTIM)


def _table_5(dataset: str, quick: bool) -> Iterator[Entry]:
    """Outcomes that one party forces."""
    base, hashed, _ = _attacked(dataset, quick)
    for index, (bound, step) in enumerate(STEPS):
        setting = f"omega {bound}, eta {step}"
        values = FORCED.get(dataset, ((None, None),) * 4)[index]
        for method, training, scale, paper in (
            ("undefended", base, "paper", values[0]),
            ("undefended, scaled by mean |v|", base, "embeddings", None),
            ("hash", hashed, "paper", values[1]),
        ):
            attack = f"pgd:bound={bound},step={step},scale={scale}"
            yield Entry("5", dataset, method, setting, training, f"attack:{attack}", paper)
    yield Entry("5", dataset, "hash, best of the codes seen", "", hashed, "attack:pgd:choose=seen-codes")
    yield Entry("5", dataset, "hash, honest submissions (baseline)", "", hashed, "baseline:pgd:choose=seen-codes")


def _table_6(dataset: str, quick: bool) -> Iterator[Entry]:
    """How far codes are from the target code, and what the detector makes of forged ones."""
    hashed, four = _attacked(dataset, quick)[1], job(dataset, "hash:bits=4", 4, quick)
    for kind in ("false alarms", "detected, best of the codes seen", "detected, code of class 0"):
        if _pictures(dataset):
            yield Entry("6", dataset, f"{kind}, %", "16 bits", hashed, f"check:{kind}")
    for index, kind in enumerate(("correct", "error")):
        paper = _value(DETECTED, dataset, index)
        yield Entry("6", dataset, f"mean distance, {kind}", "4 bits", four, f"check:{kind}", paper)


def _figures(dataset: str, quick: bool) -> Iterator[Entry]:
    """Figures 4 (parties), 5 (share of features) and 6 (consistency); the paper prints no numbers."""
    name = dataset.split()[0]
    for method, defence in (("without defence", "none"), ("hash", "hash:bits=16")):
        training = replace(job(dataset, defence, 16, quick), attacks=())
        if name != "mnist":
            for parties in (2, 3, 4, 5):
                several = replace(training, data=f"{training.data},parties={parties}")
                yield Entry("figure 4", dataset, method, f"{parties} parties", several)
            for share in (0.1, 0.2, 0.3, 0.4, 0.5):
                yield Entry("figure 5", dataset, method, f"share {share}", replace(training, share=share))
    for bits in LENGTHS[:3]:
        for method, defence, reading in (
            ("hash", f"hash:bits={bits}", "paper"),
            ("no consistency", f"hash:bits={bits},consistency=false", "paper"),
            (
                "no consistency, top trained on embeddings",
                f"hash:bits={bits},consistency=false,train_on=embeddings",
                "code",
            ),
            ("B-SL, extended", f"binarised-split:bits={bits}", "paper"),
        ):
            yield Entry(
                "figure 6", dataset, method, f"{bits} bits", job(dataset, defence, bits, quick), reading=reading
            )
