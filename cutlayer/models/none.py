"""No top model: the joined embeddings are the output."""

from torch import nn

from cutlayer.errors import ConfigError


def none_top(inputs: int, outputs: int) -> nn.Module:
    """No top: the joint embedding is the output, so its width must be the number of classes."""
    if inputs != outputs:
        raise ConfigError(f"Expected --width {outputs} for the top none, got {inputs}: the embeddings are the output.")
    return nn.Identity()
