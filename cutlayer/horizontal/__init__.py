"""Horizontal learning: clients hold different rows of the same columns, and share weights or gradients.

The cut is what is *shared*. Weights are messages, recorded in the same Transcript, seen through the same View and
judged by the same attacks as embeddings are (docs/explanation-horizontal.md).
"""

from cutlayer.horizontal.client import Client
from cutlayer.horizontal.federated import Federated, federate
from cutlayer.horizontal.federation import Exchange, Federation, Method
from cutlayer.horizontal.partition import dirichlet, evenly
from cutlayer.horizontal.server import ClientAnswer, Server

__all__ = [
    "Client",
    "ClientAnswer",
    "Exchange",
    "Federated",
    "Federation",
    "Method",
    "Server",
    "dirichlet",
    "evenly",
    "federate",
]
