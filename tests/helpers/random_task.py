"""A made-up task for the tests of cuts under encryption."""

import torch

from cutlayer.data.task import Features, Goal, Task
from cutlayer.rng import generator


def random_task(purpose: str, rows: int, parties: int, columns: int, scale: float, own: bool) -> Task:
    """Normal columns at every party; the label is the sign of their sum. Without `own` a server holds the labels."""
    rng = generator(parties, purpose)
    names = [f"p{i}" for i in range(parties)]
    features = {name: Features(scale * torch.randn(rows, columns, generator=rng)) for name in names}
    return Task(
        name="toy",
        features=features,
        labels=(sum(f.values.sum(1) for f in features.values()) > 0).long(),
        label_party=names[0] if own else "server",
        goal=Goal.BINARY,
        classes=("no", "yes"),
        train=torch.arange(rows),
        test=torch.arange(rows // 4),
    )
