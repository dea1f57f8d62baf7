"""Shared by all tests: what a defence's owner knows about a batch."""

import pytest
import torch
from hypothesis import settings

import cutlayer.net  # noqa: F401 (before grpc, which Flower imports, or TLS 1.2 would be on)
from cutlayer.defence import Local, Place
from cutlayer.draws import Draws

settings.register_profile("same", derandomize=True, deadline=None)  # the same examples in every run
settings.load_profile("same")


@pytest.fixture(autouse=True)
def alike():
    """A test finds the same state whatever ran before it. One thread: tensors here are tiny, so threads only wait for
    each other; sums, and so bits, depend on their number; and some libraries set it when they are imported."""
    torch.set_num_threads(1)
    torch.manual_seed(0)


@pytest.fixture
def local():
    """Make a Local: `local(Place.GRADIENT, seed=1, labels=...)`."""

    def make(place=Place.GRADIENT, *, seed=0, training=True, rows=None, inputs=None, labels=None):
        rng = Draws(seed)
        rows = torch.arange(0) if rows is None else rows
        return Local(place, rng, training, rows, inputs, labels)

    return make
