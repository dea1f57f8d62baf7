"""Digits on Flower: two clients with rows of their own share a top and keep their bottoms, with passports."""

import cutlayer as cl
from cutlayer.data.task import Task
from cutlayer.horizontal import Federation, Method
from cutlayer.horizontal.flower import client_app, server_app
from cutlayer.plan import Plan


def digits() -> Task:
    """Called where data are needed: in a client's process, and in the server's for columns and classes."""
    return cl.data.digits(parties=1, label_party="server")


plan = Plan(
    recipe=cl.Recipe(epochs=2, batch_size=32, optimiser=cl.Optimiser.SGD, lr=0.05),
    defences=(cl.defences.Passport(mean_range=10.0, variance=1.0, where="bottom"),),
)
federation = Federation(plan=plan, clients=2, method=Method.PRIVATE_BOTTOM)
client = client_app(digits, federation)
server = server_app(digits, federation)
