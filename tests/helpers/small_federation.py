"""A federation of a few clients on digits."""

from dataclasses import replace

import cutlayer as cl
from cutlayer.horizontal import federate
from cutlayer.horizontal.federation import Federation
from cutlayer.plan import Plan

TASK = cl.data.digits(parties=1, label_party="server")


RECIPE = cl.Recipe(batch_size=32, optimiser=cl.Optimiser.SGD, lr=0.05)


def run(**options):
    return federate(TASK, **{"clients": 3, "rounds": 2, "recipe": RECIPE} | options)


def federation(**options):
    return Federation(plan=Plan(recipe=replace(RECIPE, epochs=2)), **{"clients": 3} | options)
