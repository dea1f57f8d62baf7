"""A small task, plan and plaintext reference for the tests of the encrypted layer."""

import pytest
import torch
from torch import nn

import cutlayer as cl
import cutlayer.cuts.parts.masking as masking
from cutlayer.cuts.encrypted_layer import EncryptedLayer
from cutlayer.data.task import Task
from cutlayer.models.mlp import MLP
from cutlayer.plan import Plan, assemble
from cutlayer.transcript import Keep, Policy, Transcript
from tests.helpers.random_task import random_task

ROWS, WIDTH = 32, 3


@pytest.fixture(autouse=True)
def small_keys(monkeypatch):
    """Paillier with a key for tests: the arithmetic is the same."""
    real = masking.Paillier
    monkeypatch.setattr(masking, "Paillier", lambda ring: real(ring, 512, for_tests=True))


def make_task(parties=2, columns=2, scale=1.0, own=True) -> Task:
    return random_task("encrypted layer", ROWS, parties, columns, scale, own)


def bottom(features, width):
    return MLP(features.values.shape[1], [width], activation="tanh", last_activation=True)


def top(inputs: int, outputs: int) -> nn.Module:
    return MLP(inputs, [4, outputs], activation="tanh", first_activation=True)


def plan_of(cut=None, epochs=2, **changes):
    recipe = cl.Recipe(epochs=epochs, batch_size=8, lr=0.2, optimiser=cl.Optimiser.SGD, momentum=0.0)
    cut = cut or EncryptedLayer(width=WIDTH, lr=0.2, scheme="paillier")
    return Plan(**{"bottoms": bottom, "top": top, "width": WIDTH, "cut": cut, "recipe": recipe} | changes)


def weights_of(session, name) -> torch.Tensor:
    """W = W~ + N, which no party can compute."""
    label, feature = session.label_party.cut, session.parties[name].cut
    terms = label._ends[name].terms
    total = label._ring.add(label._memory.find(f"weights {name}"), feature._noise())
    return torch.from_numpy(label._ring.decode(total, terms.places.weights)).float()


class Layered(nn.Module):
    """A bottom with the layer behind it, in the open."""

    def __init__(self, inner: nn.Module, weights: torch.Tensor) -> None:
        super().__init__()
        self.inner, self.layer = inner, nn.Linear(*weights.shape, bias=False)
        self.layer.weight.data = weights.T.contiguous()

    def forward(self, inputs):
        return self.layer(self.inner(inputs))


def reference(task: Task, plan: Plan, weights: dict[str, torch.Tensor]):
    """The same session with an open sum and the layers at the feature parties."""
    session = assemble(task, Plan(**{**vars(plan), "cut": cl.Sum()}), lambda message: None)
    for name, weight in weights.items():
        party = session.parties[name]
        party.bottom = party.modules["bottom"] = Layered(party.bottom, weight)
        party.parameters = list(party.bottom.parameters())
        party.optimizer = plan.recipe.optimizer(party.parameters)
    return session


def recorded(parties=2, epochs=1, **settings):
    """A short training, everything kept."""
    task, transcript = make_task(parties), Transcript(Keep(Policy.ALL))
    cut = EncryptedLayer(**{"width": WIDTH, "lr": 0.2, "scheme": "paillier"} | settings)
    session = assemble(task, plan_of(cut), transcript.record)
    for epoch in range(epochs):
        session.train_epoch(epoch, task.train)
    return task, session, transcript
