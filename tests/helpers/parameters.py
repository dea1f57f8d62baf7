"""How large a model is."""

from torch import nn


def count(model: nn.Module) -> int:
    """The number of its parameters."""
    return sum(parameter.numel() for parameter in model.parameters())
