"""A task, a training and a cheating party for the defences that send codes."""

from dataclasses import replace

import torch
from torch.nn.functional import one_hot

import cutlayer as cl
from cutlayer.data.task import Features
from cutlayer.defence import Local, Place
from cutlayer.party import FeatureParty
from tests.helpers.small_task import bottom, make_task, top
from tests.helpers.toy import draws, rng

RECIPE = cl.Recipe(epochs=2, batch_size=32)


def easy_task(parties=3, label_party="p0"):
    """Every party's columns tell the class."""
    task, draw = make_task(parties, label_party), rng(3)
    shift = 3.0 * one_hot(task.labels, 4)
    return replace(task, features={n: Features(torch.randn(150, 4, generator=draw) + shift) for n in task.features})


def here(place=Place.EMBEDDING, *, labels=None, classes=2, seed=0, peer="p1", training=True):
    """What the label party, or with no labels a feature party, knows."""
    return Local(
        place, draws(seed), training, torch.arange(2), labels=labels, peer=peer, classes=classes, shared_seed=3
    )


def train(task=None, *defences, **options):
    options = {"bottoms": bottom, "top": top, "recipe": RECIPE} | options
    return cl.train(task or make_task(3, "p0"), defences=defences, **options)


class Rogue(FeatureParty):
    """Sends what it likes."""

    def __init__(self, honest, payload):
        vars(self).update(vars(honest))
        self.payload = payload

    def talk(self, batch):
        yield from self.cut.offer(self.name, self.roster, batch, self.payload(len(batch.rows)))
