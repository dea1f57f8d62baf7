"""A small task, plan and plaintext reference for the tests of the blind layer."""

from dataclasses import replace

import torch
from torch import nn

import cutlayer as cl
from cutlayer.cuts.blind_layer import BlindLayer
from cutlayer.cuts.parts.blind_ends import OWN
from cutlayer.cuts.parts.halves import RING, WEIGHT
from cutlayer.data.task import Task
from cutlayer.models import named
from cutlayer.models.mlp import MLP
from cutlayer.plan import Plan, assemble
from cutlayer.transcript import Keep, Policy, Transcript
from tests.helpers.random_task import random_task

ROWS, WIDTH, COLUMNS, LR = 32, 3, 2, 0.1


def make_task(parties=2, columns=COLUMNS, scale=1.0, own=True) -> Task:
    return random_task("blind layer", ROWS, parties, columns, scale, own)


def top(inputs: int, outputs: int) -> nn.Module:
    return MLP(inputs, [4, outputs], activation="tanh", first_activation=True)


def plan_of(cut=None, epochs=2, **changes) -> Plan:
    cut = cut or BlindLayer(width=WIDTH, lr=LR)
    recipe = cl.Recipe(epochs=epochs, batch_size=8, lr=LR, optimiser=cl.Optimiser.SGD, momentum=cut.momentum)
    return Plan(**{"bottoms": named.bottom("none"), "top": top, "cut": cut, "recipe": recipe} | changes)


def recorded(task=None, epochs=1, **settings):
    """A short training, everything kept."""
    transcript = Transcript(Keep(Policy.ALL))
    session = assemble(task or make_task(), plan_of(BlindLayer(width=WIDTH, lr=LR, **settings)), transcript.record)
    task = task or make_task()
    for epoch in range(epochs):
        transcript.begin_epoch(epoch, epoch == epochs - 1)
        session.train_epoch(epoch, task.train)
    return task, session, transcript


def weights_of(session, task) -> dict[str, torch.Tensor]:
    """The weights of every party with columns, which no party can compute: both halves, added."""
    label, found = task.label_party, {}
    for name in task.features:
        kept, holder = (OWN, task.feature_parties[0]) if name == label else (name, name)
        halves = [session.parties[party].cut._memory.find(kept) for party in (label, holder)]
        found[name] = torch.from_numpy(RING.decode(RING.add(*halves), WEIGHT)).float()
    return found


def reference(task: Task, plan: Plan, weights: dict[str, torch.Tensor]):
    """The same session in the open: a sum of linear layers on rounded columns, trained by SGD."""
    features = {n: replace(f, values=plan.cut.entering(f.values).float()) for n, f in task.features.items()}
    layers = {name: nn.Linear(*weight.shape, bias=False) for name, weight in weights.items()}
    for name, layer in layers.items():
        layer.weight.data = weights[name].T.contiguous()
    rounded = Task(**{**vars(task), "features": features})
    return assemble(rounded, replace(plan, cut=cl.Sum(), bottoms=layers), lambda message: None)
