"""FedAdOb's tables in horizontal learning: which jobs each needs, and the paper's values.

Gu et al., sections 4.2 and 6.2.1, figure 3 and table 3; specification fedadob. Ten clients, LeNet on MNIST cut after
its first convolution, SGD at 0.01 with momentum 0.9, batches of 64. Two trainings stand behind a point: one that
averages weights, for the accuracy and for the inversion of what bottoms say (WMI, BMI), and one that sends gradients of
single pictures, for the inversion of gradients (WGI, BGI) in its first rounds: by networks without batch norm, which
has no batch here; the LeNet is smooth, too, since L-BFGS wants second derivatives (Zhu et al. replace ReLU as well).
The paper says neither when it attacks nor how many pictures are behind a gradient.

AlexNet on CIFAR-10 alike, in paper mode.

Differences from the paper: 24 rounds on MNIST and 50 on CIFAR-10, not 50 and 100; three settings of every method. What
SplitFed's server sees of gradients is what it sees of private bottoms without passports. CIFAR-100 cannot be had. Quick
mode takes 10,000 digits, two clients, and two settings of every method.
"""

from collections.abc import Iterator

from cutlayer.papers.entry import Entry, by_table
from cutlayer.papers.fedadob_horizontal.checks import WHITE
from cutlayer.papers.job import Job

ROUNDS = {"mnist": 24, "cifar10": 50}
NETS = {"mnist": ("first-layer", "lenet-rest"), "cifar10": ("first-layer:maps=64,padding=2", "alexnet-rest")}
ALONE = {  # for single pictures, which have no batch to be normed by
    "mnist": ("first-layer:batch_norm=false,activation=sigmoid", "lenet-rest:activation=sigmoid"),
    "cifar10": ("first-layer:maps=64,padding=2,batch_norm=false", "alexnet-rest:batch_norm=false"),
}
SWEEPS = {  # of what protects weights and gradients
    "none": ("none",),
    "noise": tuple(f"gaussian-noise:std={std},on=update" for std in ("5e-05", "0.005", "0.2")),
    "sparsification": tuple(f"sparsification:share={share},on=update" for share in ("0.5", "0.05", "0.01")),
    "instahide": tuple(f"instahide:k={k}" for k in (1, 2, 4)),
    "passport": tuple(f"passport:mean_range={mean}.0,variance=1.0,where=bottom" for mean in (2, 10, 50)),
}
BLACK = {  # table 3
    "mnist": {"splitfed": {"BGI": 0.111, "BMI": 0.052}, "passport": {"BGI": 0.111, "BMI": 0.071}},
    "cifar10": {"splitfed": {"BGI": 0.110, "BMI": 0.028}, "passport": {"BGI": 0.116, "BMI": 0.057}},
}
ROUGH = {"mnist": 0.0, "cifar10": 0.01}  # weight of the total variation, for pictures from gradients


def attacks(dataset: str, quick: bool) -> dict[str, str]:
    """The attacks, by what they are called in the tables."""
    gradient = f"gradient-inversion:messages={4 if quick else 10},steps={500 if quick else 1000},restarts=2"
    cosine = f"{gradient},method=cosine,tv={ROUGH[dataset]}"
    common = f"images={50 if quick else 100},steps={300 if quick else 1000}"
    return {
        "WGI": cosine,
        "WGI, L-BFGS": f"{gradient},method=dlg",
        "WGI, passports fitted": f"{cosine},passports=fit",
        "BGI": f"{cosine},knows=form",
        "WMI": f"model-inversion:{common},start=normal,bounded=false,restarts=1,lr=0.1,l2=0.0",
        "WMI, within [0, 1]": f"model-inversion:{common},restarts=1",
        "WMI, passports fitted": f"passport-inversion:{common},restarts=2",
        "BMI": f"query-free-inversion:{common},tv=3.0,shadow=1000",
        "decoder, 1,000 pairs": f"decoder:images={50 if quick else 100}",
    }


def job(dataset: str, defence: str, method: str, exchange: str, quick: bool) -> Job:
    """One training."""
    single = exchange == "gradients"
    chosen = {name: spelling for name, spelling in attacks(dataset, quick).items() if (name[1:3] == "GI") == single}
    if method == "fedavg":  # the server has the bottom
        chosen = {name: spelling for name, spelling in chosen.items() if not name.startswith("B")}
    if "passport" not in defence:
        chosen = {name: spelling for name, spelling in chosen.items() if "passports" not in name}
    bottom, top = (ALONE if single else NETS)[dataset]
    return Job(
        data=f"{dataset}:parties=1,label_party=server" + (",limit=12000" if quick else ""),
        bottom=bottom,
        top=top,
        defence=defence,
        epochs=(4 if quick else 10) if single else (12 if quick else ROUNDS[dataset]),
        batch_size=1 if single else 64,
        lr=0.03 if quick else 0.01,
        optimiser="sgd",
        weight_decay=4e-5,
        clip=5.0,
        drop_every=1000,  # never
        attacks=tuple(chosen.values()),
        checks=() if single or "passport" not in defence else ("fedadob_horizontal:every_client",),
        horizontal=f"clients={2 if single or quick else 10},method={method},exchange={exchange}",
    )


def sweep(method: str, quick: bool) -> list[str]:
    """The settings of a method; in quick mode the weakest and the strongest."""
    settings = list(SWEEPS[method])
    return list(dict.fromkeys((settings[0], settings[-1]))) if quick else settings


def tables(quick: bool) -> dict[str, list[Entry]]:
    """Every table, by its name."""
    return by_table(_entries(quick))


def _entries(quick: bool) -> Iterator[Entry]:
    for dataset in ("mnist",) if quick else NETS:
        yield from _figure_3(dataset, quick)
        yield from _table_3(dataset, quick)


def _figure_3(dataset: str, quick: bool) -> Iterator[Entry]:
    """Accuracy and errors over every method's settings; the paper draws them, without numbers."""
    for method in SWEEPS:
        for defence in sweep(method, quick):
            shared = "private-bottom" if method == "passport" else "fedavg"
            whole, single = (job(dataset, defence, shared, exchange, quick) for exchange in ("weights", "gradients"))
            yield Entry("figure 3", dataset, defence, "accuracy", whole)
            for name, spelling in attacks(dataset, quick).items():
                training = single if spelling in single.attacks else whole
                if spelling in training.attacks:
                    yield Entry("figure 3", dataset, defence, f"error of {name}", training, f"error:{spelling}")
            for name in WHITE if whole.checks else ():
                for which in ("", ", least", ", largest"):
                    setting = f"error of WMI, passports {name}, over clients{which}"
                    yield Entry("figure 3", dataset, defence, setting, whole, f"check:{name}{which}")


def _table_3(dataset: str, quick: bool) -> Iterator[Entry]:
    """SplitFed beside FedAdOb, when the server does not know the bottoms."""
    for method, known in BLACK[dataset].items():
        defence = "none" if method == "splitfed" else SWEEPS["passport"][0]
        whole = job(dataset, defence, "splitfed" if method == "splitfed" else "private-bottom", "weights", quick)
        single = job(dataset, defence, "private-bottom", "gradients", quick)
        for name, printed in known.items():
            training = single if name == "BGI" else whole
            yield Entry("3", dataset, method, name, training, f"error:{attacks(dataset, quick)[name]}", printed)
