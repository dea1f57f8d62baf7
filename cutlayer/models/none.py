"""No model: the columns are the embedding, or the joined embeddings are the output."""

from torch import nn

from cutlayer.blocks.sparse import SparseRows
from cutlayer.data.task import Features
from cutlayer.errors import ConfigError
from cutlayer.models.parts.shape import flat_width


def none_bottom(features: Features, width: int) -> nn.Module:
    """No bottom: a row's columns, flat, are the embedding, whatever --width says (for --cut blind-layer)."""
    if isinstance(features.values, SparseRows):
        raise ConfigError("Expected dense columns for the bottom none, got sparse rows: use --bottom linear.")
    flat_width(features)
    return nn.Flatten()


def none_top(inputs: int, outputs: int) -> nn.Module:
    """No top: the joint embedding is the output, so its width must be the number of classes."""
    if inputs != outputs:
        raise ConfigError(f"Expected --width {outputs} for the top none, got {inputs}: the embeddings are the output.")
    return nn.Identity()
