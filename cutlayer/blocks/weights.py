"""Weights as one vector: what is shared of a model, in the order of its state; and back."""

from collections.abc import Iterable, Iterator

import torch
from torch import Tensor, nn


def entries(modules: Iterable[nn.Module]) -> list[Tensor]:
    """Parameters and running statistics, but no counters: a mean of those means nothing."""
    kept = (tensor for module in modules for tensor in module.state_dict(keep_vars=True).values())
    return [tensor for tensor in kept if tensor.is_floating_point()]


def places(modules: Iterable[nn.Module]) -> Iterator[tuple[slice, Tensor]]:
    """Where each entry lies in the vector."""
    start = 0
    for entry in entries(modules):
        yield slice(start, start + entry.numel()), entry
        start += entry.numel()


def pack(modules: Iterable[nn.Module]) -> Tensor:
    """All that is shared, as one vector."""
    parts = [entry.detach().flatten() for entry in entries(modules)]
    return torch.cat(parts) if parts else torch.empty(0)


def unpack(vector: Tensor, modules: Iterable[nn.Module]) -> None:
    """Put a vector's numbers into modules, in place."""
    with torch.no_grad():
        for place, entry in places(modules):
            entry.copy_(vector[place].view_as(entry))
