"""A task of 150 rows and three classes, and models with dropout and batch norm for it."""

import torch
from torch import nn

from cutlayer.data.task import Features, Goal, Task
from cutlayer.rng import generator

ROWS, WIDTH = 150, 6


def make_task(parties: int, label_party: str, goal: Goal = Goal.MULTICLASS) -> Task:
    rng = generator(7, "toy")
    labels = torch.randint(0, 3, (ROWS,), generator=rng)
    return Task(
        name="toy",
        features={f"p{i}": Features(torch.randn(ROWS, 4 + i, generator=rng)) for i in range(parties)},
        labels=labels.float() if goal is Goal.REGRESSION else labels,
        label_party=label_party,
        goal=goal,
        classes=() if goal is Goal.REGRESSION else ("a", "b", "c"),
        train=torch.arange(120),
        test=torch.arange(120, ROWS),
    )


def bottom(features: Features, width: int) -> nn.Module:
    inputs = features.values.shape[1]
    return nn.Sequential(
        nn.Linear(inputs, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, width), nn.Tanh()
    )


def top(inputs: int, outputs: int) -> nn.Module:
    return nn.Sequential(
        nn.BatchNorm1d(inputs), nn.Dropout(0.2), nn.Linear(inputs, 8), nn.ReLU(), nn.Linear(8, outputs)
    )
