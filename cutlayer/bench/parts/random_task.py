"""Random rows to train on: speed does not depend on what they say."""

from collections.abc import Mapping

import torch
from torch import Generator, Tensor

from cutlayer.data.task import Features, Goal, Task


def random_task(
    values: Mapping[str, Tensor],
    classes: int,
    rng: Generator,
    *,
    label_party: str = "server",
    train: Tensor | None = None,
    test: Tensor | None = None,
) -> Task:
    """A task with random labels for given columns. Unless told otherwise, all rows are for training."""
    rows = len(next(iter(values.values())))
    return Task(
        name="bench",
        features={name: Features(columns) for name, columns in values.items()},
        labels=torch.randint(0, classes, (rows,), generator=rng),
        label_party=label_party,
        goal=Goal.BINARY if classes == 2 else Goal.MULTICLASS,
        classes=tuple(str(number) for number in range(classes)),
        train=torch.arange(rows) if train is None else train,
        test=torch.arange(min(100, rows)) if test is None else test,
    )
