"""A round of horizontal learning against the same in plain torch; and every way to defend it against none.

Ten clients with 256 random pictures of 28x28 each, LeNet cut after its first convolution, batches of 64, SGD, one
thread, CPU time. The plain loop copies weights, trains and averages; `ratio` is FedAvg's over it, at most 1.15 is
wanted. FedAdOb's table 8: a round, and a prediction, over FedAvg's.
"""

import time
from collections.abc import Callable

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from cutlayer.bench.parts.random_task import random_task
from cutlayer.bench.parts.timing import Figures, fastest
from cutlayer.data.task import Task
from cutlayer.defence import Defence
from cutlayer.defences.gaussian_noise import GaussianNoise
from cutlayer.defences.insta_hide import Instahide
from cutlayer.defences.passport import Passport
from cutlayer.defences.sparsification import Sparsification
from cutlayer.horizontal.federated import Federated
from cutlayer.horizontal.federation import DEFAULT, Federation, Method
from cutlayer.horizontal.members import client_of, server_of
from cutlayer.models import named
from cutlayer.plan import Plan
from cutlayer.progress import Progress, silent
from cutlayer.rng import generator
from cutlayer.training import using_threads
from cutlayer.transcript import Transcript

CLIENTS, ROWS = 10, 256
SETUPS: dict[str, tuple[Method, tuple[Defence, ...]]] = {
    "fedavg": (Method.FEDAVG, ()),
    "splitfed": (Method.SPLITFED, ()),
    "noise": (Method.FEDAVG, (GaussianNoise(std=1e-3, on="update"),)),
    "sparsification": (Method.FEDAVG, (Sparsification(share=0.1, on="update"),)),
    "instahide": (Method.FEDAVG, (Instahide(k=4),)),
    "private bottom": (Method.PRIVATE_BOTTOM, ()),
    "passport": (Method.PRIVATE_BOTTOM, (Passport(mean_range=10.0, variance=1.0, where="bottom"),)),
}


def make_task() -> Task:
    """Random pictures."""
    rng = generator(0, "bench horizontal")
    return random_task({"whole": torch.rand(CLIENTS * ROWS, 1, 28, 28, generator=rng)}, 10, rng)


def work_of(task: Task, method: Method, defences: tuple[Defence, ...]) -> dict[str, Callable[[], object]]:
    """One round, and the prediction of as many rows by one client."""
    plan = Plan(bottoms=named.bottom("first-layer"), top=named.top("lenet-rest"), recipe=DEFAULT, defences=defences)
    federation = Federation(plan=plan, clients=CLIENTS, method=method)
    clients = {name: client_of(task, federation, name) for name in federation.names}
    run = Federated(task, federation, clients, server_of(task, federation), Transcript())
    return {"": lambda: run.round(0), ", predicting": lambda: clients["client0"].outputs(task.train)}


def plain_round(task: Task) -> Callable[[], object]:
    """The same without us: a model per client, SGD, the mean of their weights."""
    (features,) = task.features.values()
    values = features.values
    models = [
        nn.Sequential(named.bottom("first-layer")(features, 16), named.top("lenet-rest")(8 * 12 * 12, 10))
        for _ in range(CLIENTS)
    ]
    shared = {name: tensor.clone() for name, tensor in models[0].state_dict().items()}
    parts = task.train.split(ROWS)

    def turn() -> None:
        nonlocal shared
        states = []
        for model, rows in zip(models, parts, strict=True):
            model.load_state_dict(shared)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=4e-5, fused=True)
            for batch in rows[torch.randperm(len(rows))].split(64):
                optimizer.zero_grad()
                loss = cross_entropy(model(values.index_select(0, batch)), task.labels.index_select(0, batch))
                loss.backward()
                optimizer.step()
            states.append(model.state_dict())
        shared = {
            name: sum(state[name] for state in states) / CLIENTS if tensor.is_floating_point() else tensor.clone()
            for name, tensor in states[0].items()
        }

    return turn


def measure(repeats: int, progress: Progress = silent) -> Figures:
    """Interleave all `repeats` times and compare the fastest turns."""
    with using_threads(1), torch.random.fork_rng():
        task = make_task()
        work = {"plain": plain_round(task)}
        work |= {name + kind: go for name, setup in SETUPS.items() for kind, go in work_of(task, *setup).items()}
        best = fastest(work, repeats, progress, time.process_time)
    over = {
        f"{name}{kind}, over fedavg": best[name + kind] / best["fedavg" + kind]
        for kind in ("", ", predicting")
        for name in SETUPS
        if name != "fedavg"
    }
    return {"ratio": best["fedavg"] / best["plain"], **over, "seconds_plain": best["plain"]}
