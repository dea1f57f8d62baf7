"""Weights as one vector: what is shared of a model, in the order of its state; and back."""

from collections.abc import Iterable, Iterator

import torch
from torch import Tensor, nn


def entries(modules: Iterable[nn.Module]) -> list[Tensor]:
    """Parameters and running statistics. Counters stay at home: their mean means nothing."""
    kept = (one for module in modules for one in module.state_dict(keep_vars=True).values())
    return [one for one in kept if one.is_floating_point()]


def places(modules: Iterable[nn.Module]) -> Iterator[tuple[slice, Tensor]]:
    """Where each entry lies in the vector."""
    start = 0
    for one in entries(modules):
        yield slice(start, start + one.numel()), one
        start += one.numel()


def pack(modules: Iterable[nn.Module]) -> Tensor:
    """All that is shared, as one vector."""
    parts = [one.detach().flatten() for one in entries(modules)]
    return torch.cat(parts) if parts else torch.empty(0)


def unpack(vector: Tensor, modules: Iterable[nn.Module]) -> None:
    """Put a vector's numbers into modules, in place."""
    with torch.no_grad():
        for here, one in places(modules):
            one.copy_(vector[here].view_as(one))
