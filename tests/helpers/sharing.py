"""A small federation of horizontal learning, for attacks on what clients send."""

from dataclasses import dataclass, replace
from functools import cache

import torch
from torch import nn

from cutlayer import horizontal
from cutlayer.attack import Attack
from cutlayer.auditing.secret import secret_of_client
from cutlayer.data.task import Features, Goal, Task
from cutlayer.horizontal.federation import Exchange
from cutlayer.judge import grant
from cutlayer.recipe import Optimiser, Recipe
from cutlayer.view import Manifest, View
from tests.helpers.toy import rng


@dataclass(frozen=True)
class Sharing:
    """A horizontal federation of two clients that send gradients of two rows each, smooth enough to be inverted."""

    run: horizontal.Federated

    @property
    def manifest(self) -> Manifest:
        return self.run.manifest("client0")

    def view_for(self, attack: Attack) -> View:
        """What the server saw of the first client."""
        view = self.run.view("client0")
        return replace(view, hints=grant(attack.asks, view, secret_of_client(self.run, "client0"), 0), victim="client0")


@cache
def sharing() -> Sharing:
    """Two rounds on 40 rows of 6 columns and 3 classes."""
    values = torch.rand(40, 6, generator=rng())
    labels = torch.arange(40) % 3
    train, test = torch.arange(30), torch.arange(30, 40)
    task = Task("rows", {"whole": Features(values)}, labels, "server", Goal.MULTICLASS, ("a", "b", "c"), train, test)
    recipe = Recipe(batch_size=2, optimiser=Optimiser.SGD, lr=0.1)
    return Sharing(
        horizontal.federate(
            task,
            clients=2,
            exchange=Exchange.GRADIENTS,
            rounds=2,
            recipe=recipe,
            bottoms=lambda features, width: nn.Sequential(nn.Linear(6, 16), nn.Sigmoid()),
            top=lambda inputs, outputs: nn.Linear(inputs, outputs),
            keep="all",
        )
    )
