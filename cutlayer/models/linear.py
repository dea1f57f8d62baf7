"""Linear: one layer, as the bottoms of two papers are and as the tops that follow convolutions are."""

from torch import nn

from cutlayer.blocks.sparse import SparseRows
from cutlayer.data.task import Features
from cutlayer.errors import ConfigError
from cutlayer.models.mlp import MLP
from cutlayer.models.parts.shape import flat_width


def linear_bottom(features: Features, width: int, *, bias: bool = False) -> nn.Module:
    """One linear layer, without bias or activation (binary reconstruction, SFA)."""
    return MLP(flat_width(features), [width], bias=bias, sparse=isinstance(features.values, SparseRows))


def linear_top(inputs: int, outputs: int, *, maps: int = 0) -> nn.Module:
    """One linear layer (FedAdOb: AlexNet, Deep & Cross); with maps=512 on the mean of each map (ResNet-18)."""
    if not maps:
        return MLP(inputs, [outputs])
    if inputs % maps:
        raise ConfigError(f"Expected {maps} maps of one size for the top linear, got {inputs} numbers; set maps=.")
    mean = nn.Sequential(nn.Flatten(), nn.Unflatten(1, (maps, -1)), nn.AdaptiveAvgPool1d(1), nn.Flatten())
    return nn.Sequential(*mean, nn.Linear(maps, outputs))
