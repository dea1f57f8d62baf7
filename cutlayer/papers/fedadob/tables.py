"""FedAdOb's tables in vertical learning: which jobs each needs, and the paper's values.

Gu et al., section 6 and appendix A; specification fedadob. The feature party holds whole pictures, the label party
labels only. SGD at 0.01 with momentum 0.9, batches of 64, gradients clipped to 5 (large passports may diverge without),
the rate divided by ten after half and three quarters of the epochs. Beside the paper's methods stand some that others
compare with, and one of ours (self-taught).

Differences from the paper: LeNet on MNIST trains for 10 epochs, not 50, AlexNet on CIFAR-10 for 30 and ResNet-18 for
15, not 100; ResNet-18 takes two settings of every method, and AlexNet three of what it is compared with (one where
labels are hidden).
White-box inversion (`WMI`) guesses passports, as the paper's theorem has it; beside it stand attackers who ignore them,
who fit them, and a decoder that was taught pairs. Black-box inversion (`BMI`) has as many shadow rows as the test set
spares. ModelNet cannot be had. Quick mode trains on 10,000 digits and takes two settings of every method.
"""

from collections.abc import Iterator

from cutlayer.papers.entry import Entry, by_table
from cutlayer.papers.job import Job

SETS = {
    "mnist": ("mnist:parties=1,label_party=server", "lenet:flat=false", "lenet"),
    "cifar10": ("cifar10:parties=1,label_party=server", "alexnet:flat=false", "linear"),
    "cifar10, resnet18": ("cifar10:parties=1,label_party=server", "resnet18:flat=false", "linear:maps=512"),
}
EPOCHS = {"mnist": 10, "cifar10": 30, "cifar10, resnet18": 15}
LARGEST = {"mnist": 50, "cifar10": 200, "cifar10, resnet18": 100}  # mean range, as in the paper's sweep
NOISE = ("5e-05", "0.0005", "0.005", "0.05", "0.2", "1.0")
KEPT = ("0.5", "0.1", "0.05", "0.01", "0.001")
PRIVATE = ("5.0", "2.0", "1.0", "0.5", "0.1")
MEANS = {
    "mnist": (1, 2, 5, 10, 50),
    "cifar10": (1, 2, 5, 10, 50, 100, 200),
    "cifar10, resnet18": (10, 100),
}
VARIANCES = {"mnist": (1, 2, 5, 9), "cifar10": (2, 5, 10, 50, 64), "cifar10, resnet18": (5, 25)}

# Against features: the sweeps, and the paper's table 4 for WMI and BMI.
HIDE_FEATURES = {
    "none": ("none",),
    "sparsification": tuple(f"sparsification:share={share},on=embedding" for share in KEPT),
    "noise": tuple(f"gaussian-noise:std={std}" for std in NOISE),
    "instahide": tuple(f"instahide:k={k}" for k in (1, 2, 3, 4)),
    "passport": (),  # by dataset
    "mutual-information": tuple(f"mutual-information:weight={weight}" for weight in ("1e-05", "0.0001", "0.001")),
    "distance-correlation": tuple(f"distance-correlation:weight={weight}" for weight in ("0.3", "1.0", "3.0")),
}
# Against labels.
HIDE_LABELS = {
    "none": ("none",),
    "confusional-autoencoder": tuple(f"confusional-autoencoder:weight={weight}" for weight in ("0.5", "1.0", "2.0")),
    "grad-perturb": tuple(f"grad-perturb:epsilon={epsilon}" for epsilon in PRIVATE),
    "label-dp": tuple(f"label-dp:epsilon={epsilon}" for epsilon in PRIVATE),
    "sparsification": tuple(f"sparsification:share={share}" for share in KEPT),
    "noise": tuple(f"gaussian-noise:std={std},on=gradient" for std in NOISE),
    "passport": (),
    "self-taught": ("self-taught:teach=alike",),
}
WMI = {
    "cifar10": {"none": 0.019, "sparsification": 0.058, "noise": 0.042, "instahide": 0.023, "passport": 0.105},
    "cifar10, resnet18": {
        "none": 0.021,
        "sparsification": 0.067,
        "noise": 0.057,
        "instahide": 0.053,
        "passport": 0.109,
    },
    "mnist": {"none": 0.033, "sparsification": 0.049, "noise": 0.033},
}
BMI = {
    "mnist": {"none": 0.033, "sparsification": 0.060, "noise": 0.049, "instahide": 0.046, "passport": 0.087},
    "cifar10": {"none": 0.043, "sparsification": 0.047, "noise": 0.046, "instahide": 0.032, "passport": 0.054},
    "cifar10, resnet18": {
        "none": 0.046,
        "sparsification": 0.065,
        "noise": 0.063,
        "instahide": 0.047,
        "passport": 0.105,
    },
}
PMC = {
    "mnist": {
        "none": 0.117,
        "confusional-autoencoder": 0.302,
        "grad-perturb": 0.195,
        "label-dp": 0.314,
        "sparsification": 0.277,
        "noise": 0.216,
        "passport": 0.506,
    },
    "cifar10": {
        "none": 0.322,
        "confusional-autoencoder": 0.415,
        "grad-perturb": 0.353,
        "label-dp": 0.355,
        "sparsification": 0.283,
        "noise": 0.358,
        "passport": 0.460,
    },
    "cifar10, resnet18": {
        "none": 0.166,
        "confusional-autoencoder": 0.217,
        "grad-perturb": 0.276,
        "label-dp": 0.276,
        "sparsification": 0.268,
        "noise": 0.237,
        "passport": 0.379,
    },
}
SCORED = {  # against norm and direction scoring, on two classes
    "none": "none",
    "noise": "gaussian-noise:std=0.0001,on=gradient",
    "max-norm": "max-norm",
    "marvell": "marvell:scale=1.0",
    "passport": "passport:mean_range=100.0,variance=5.0",
    "self-taught": "self-taught",
}
SCORES = ("norm-score", "direction-score", "gradient-clusters")
FIVE = {1: (87.98, 0.0589), 2: (87.71, 0.0818), 5: (87.58, 0.1203), 10: (87.64, 0.1204), 50: (87.61, 0.1205)}
FIVE |= {100: (87.59, 0.1205), 200: (87.39, 0.1205)}
SIX = {2: (87.3, 0.510), 5: (87.0, 0.543), 10: (86.4, 0.568), 50: (85.8, 0.577)}


def attacks(name: str, quick: bool) -> dict[str, dict[str, str]]:
    """The attacks on features and on labels, by what they are called in the tables."""
    steps, images = (300, 50) if quick else (2000, 100)
    common = f"images={images},steps={steps}"
    return {
        "features": {
            "WMI": f"model-inversion:{common},start=normal,bounded=false,restarts=1,lr=0.1,l2=0.0",
            "WMI, within [0, 1]": f"model-inversion:{common},restarts=1",
            "WMI, passports ignored": f"passport-inversion:{common},assume=none,restarts=1",
            "WMI, passports fitted": f"passport-inversion:{common},restarts={2 if quick else 4}",
            "BMI": f"query-free-inversion:{common},tv=3.0," + ("shadow=1000,epochs=20" if quick else "shadow=8000"),
            "decoder, 100 pairs": f"decoder:pairs=100,images={images}",
            "decoder, 1,000 pairs": f"decoder:images={images}",
            **({} if quick else {"decoder, 10,000 pairs": f"decoder:pairs=10000,images={images}"}),
        },
        "labels": {
            "PMC": "model-completion",
            **({} if quick else {"PMC, MixMatch": "model-completion:ssl=true"}),
            **({"gradient-clusters": "gradient-clusters"} if name == "mnist" else {}),  # slow on 4,096 numbers a row
        },
    }


def job(name: str, defence: str, target: str, quick: bool) -> Job:
    """One training under one defence, attacked by all that go for features, or for labels."""
    data, bottom, top = SETS[name]
    epochs = 6 if quick else EPOCHS[name]
    return Job(
        data=f"{data},limit=12000" if quick else data,
        bottom=bottom,
        top=top,
        defence=defence,
        epochs=epochs,
        batch_size=64,
        lr=0.03 if quick else 0.01,
        optimiser="sgd",
        weight_decay=4e-5,
        clip=5.0,
        milestones=(epochs // 2, 3 * epochs // 4),
        attacks=tuple(attacks(name, quick)[target].values()),
    )


def sweep(name: str, method: str, target: str, quick: bool) -> list[str]:
    """The settings of a method; in quick mode and for ResNet-18 the weakest and the strongest, of AlexNet's rivals one
    between them as well, and that one alone where labels are to be hidden."""
    if method == "passport":
        if target == "features":
            settings = [f"passport:mean_range={mean}.0,variance=1.0" for mean in MEANS[name]]
        else:
            settings = [f"passport:mean_range={LARGEST[name]}.0,variance={v}.0" for v in VARIANCES[name]]
    else:
        settings = list((HIDE_FEATURES if target == "features" else HIDE_LABELS)[method])
    if quick or "resnet18" in name:
        settings = [settings[0], settings[-1]]
    elif name == "cifar10" and method != "passport":
        middle = settings[len(settings) // 2]
        settings = [middle] if target == "labels" else [settings[0], middle, settings[-1]]
    return list(dict.fromkeys(settings))


def tables(quick: bool) -> dict[str, list[Entry]]:
    """Every table, by its name."""
    return by_table(_entries(quick))


def _entries(quick: bool) -> Iterator[Entry]:
    yield from _figure_6(quick)
    for name in ("mnist",) if quick else SETS:
        yield from _table_4(name, quick)
        yield from _table_5(name, quick)
        yield from _table_6(name, quick)


def _table_4(name: str, quick: bool) -> Iterator[Entry]:
    """CAP, by each attack and by the strongest; and the points that it is the mean of."""
    for target, methods in (("features", HIDE_FEATURES), ("labels", HIDE_LABELS)):
        for method in methods:
            jobs = tuple(job(name, setting, target, quick) for setting in sweep(name, method, target, quick))
            for attack, spelling in attacks(name, quick)[target].items():
                if "passports" in attack and method != "passport":
                    continue
                known = {"WMI": WMI, "BMI": BMI, "PMC": PMC}.get(attack, {}).get(name, {})
                yield Entry("4", name, method, attack, jobs[0], f"cap:{spelling}", known.get(method), sweep=jobs)
            yield Entry("4", name, method, f"the strongest on {target}", jobs[0], "cap:strongest", sweep=jobs)
            for training in jobs:
                defence = training.defence
                yield Entry("points", name, defence, "accuracy", training)
                for attack, spelling in attacks(name, quick)[target].items():
                    if "passports" not in attack or method == "passport":
                        yield Entry(
                            "points", name, training.defence, f"error of {attack}", training, f"error:{spelling}"
                        )


def _table_5(name: str, quick: bool) -> Iterator[Entry]:
    """The range of means against white-box inversion; the paper's figures are of AlexNet on CIFAR-10."""
    paper = FIVE if name == "cifar10" else {}
    for mean in (1, 10, 50) if quick else MEANS[name]:
        training = job(name, f"passport:mean_range={mean}.0,variance=1.0", "features", quick)
        accuracy, error = paper.get(mean, (None, None))
        yield Entry("5", name, "accuracy", f"N = {mean}", training, paper=accuracy)
        for attack, spelling in attacks(name, quick)["features"].items():
            printed = error if attack == "WMI" else None
            yield Entry("5", name, f"error of {attack}", f"N = {mean}", training, f"error:{spelling}", printed)


def _table_6(name: str, quick: bool) -> Iterator[Entry]:
    """The passports' variance against label inference; the paper's figures are of AlexNet on CIFAR-10, N = 100."""
    paper = SIX if name == "cifar10" else {}
    for variance in (1, 9) if quick else VARIANCES[name]:
        training = job(name, f"passport:mean_range={LARGEST[name]}.0,variance={variance}.0", "labels", quick)
        accuracy, error = paper.get(variance, (None, None))
        yield Entry("6", name, "accuracy", f"variance {variance}", training, paper=accuracy)
        for attack, spelling in attacks(name, quick)["labels"].items():
            printed = error if attack == "PMC" else None
            yield Entry("6", name, f"error of {attack}", f"variance {variance}", training, f"error:{spelling}", printed)


def _figure_6(quick: bool) -> Iterator[Entry]:
    """Labels read off gradients on Criteo, where both parties have columns; the paper draws it, without numbers."""
    for method, defence in SCORED.items():
        training = Job(
            data="criteo:preparation=dcn,imbalance=16" + (",limit=20000" if quick else ""),
            bottom="deep-cross",
            top="linear",
            width=32,
            cut="sum",
            defence=defence,
            epochs=3 if quick else 10,
            batch_size=64,
            weight_decay=4e-5,
            drop_every=1000,  # never
            attacks=SCORES,
        )
        yield Entry("figure 6", "criteo", method, "AUC of the model", training, "auc")
        for attack in SCORES:
            yield Entry("figure 6", "criteo", method, attack, training, f"attack:{attack}")
