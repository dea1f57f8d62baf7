"""A bank and a shop whose columns are binary and others, and a plan of linear bottoms for them."""

import torch

import cutlayer as cl
from cutlayer.data.task import Features, Goal, Task
from cutlayer.models import named
from cutlayer.plan import Plan
from tests.helpers.toy import rng

ROWS, COLUMNS, WIDTH = 400, 5, 12


def make_task() -> Task:
    """Two binary columns and three others at the feature party; the label depends on all."""
    draws = rng(5)
    shop = torch.rand(ROWS, COLUMNS, generator=draws)
    shop[:, :2] = (shop[:, :2] > 0.4).float()
    bank = torch.rand(ROWS, 3, generator=draws)
    score = shop.sum(dim=1) + bank.sum(dim=1)
    labels = (score > score.median()).long()
    features = {"bank": Features(bank), "shop": Features(shop)}
    return Task("toy", features, labels, "bank", Goal.BINARY, ("no", "yes"), torch.arange(320), torch.arange(320, ROWS))


def plan(*defences, epochs=4):
    recipe = cl.Recipe(epochs=epochs, batch_size=32, optimiser=cl.Optimiser.SGD, lr=0.1)
    return Plan(
        bottoms=named.bottom("linear"),
        top=named.top("relu-mlp:hidden=8"),
        width=WIDTH,
        cut=cl.Sum(),
        defences=defences,
        recipe=recipe,
    )
