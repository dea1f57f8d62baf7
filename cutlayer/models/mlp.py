"""MLP: fully connected layers, as a bottom, as a top, or as one bare linear layer.

Almost every paper here uses some MLP, and they differ only in where activations go relative to
the cut, so one class with three switches takes the place of one class per paper.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Literal

from torch import Tensor, nn

from cutlayer._validate import at_least, one_of, probability
from cutlayer.blocks.sparse import SparseRows
from cutlayer.data.task import Features
from cutlayer.errors import ConfigError
from cutlayer.models.parts.shape import flat_width
from cutlayer.models.sparse_linear import SparseLinear

Activation = Literal["relu", "tanh", "sigmoid", "none"]
CURVES: dict[Activation, Callable[[], list[nn.Module]]] = {
    "relu": lambda: [nn.ReLU()],
    "tanh": lambda: [nn.Tanh()],
    "sigmoid": lambda: [nn.Sigmoid()],
    "none": lambda: [],
}


class MLP(nn.Module):
    """Linear layers of the given widths, with norm, activation and dropout (in that order) between them.

    Images are flattened. `first_activation` puts norm, activation and dropout before the first
    layer too: a top needs that when bottoms are linear and their outputs are summed, since the
    non-linearity may only come after the sum. `last_activation` puts them after the last one: a
    bottom needs that when its embedding is a hidden layer. With both off, neither end is touched.
    With `sparse`, the inputs are SparseRows. `he_uniform` starts weights by He's rule and biases at
    zero, instead of torch's own rule.
    """

    def __init__(
        self,
        inputs: int,
        widths: Sequence[int],
        *,
        activation: Activation = "relu",
        batch_norm: bool = False,
        dropout: float = 0.0,
        bias: bool = True,
        first_activation: bool = False,
        last_activation: bool = False,
        sparse: bool = False,
        he_uniform: bool = False,
    ) -> None:
        super().__init__()
        _check(inputs, widths, activation, dropout, sparse and first_activation)

        def between(width: int) -> list[nn.Module]:
            norm: list[nn.Module] = [nn.BatchNorm1d(width)] if batch_norm else []
            return norm + CURVES[activation]() + ([nn.Dropout(dropout)] if dropout else [])

        layers: list[nn.Module] = [] if sparse else [nn.Flatten()]
        if first_activation:
            layers += between(inputs)
        last = len(widths) - 1
        for index, (before, after) in enumerate(pairwise([inputs, *widths])):
            linear = SparseLinear if sparse and index == 0 else nn.Linear
            layers.append(linear(before, after, bias=bias))
            if index < last or last_activation:
                layers += between(after)
        self.layers = nn.Sequential(*layers)
        if he_uniform:
            self.layers.apply(_he_uniform)

    def forward(self, inputs: Tensor | SparseRows) -> Tensor:
        """Return one row of the last width per input row."""
        output: Tensor = self.layers(inputs)
        return output


def mlp_bottom(
    features: Features,
    width: int,
    *,
    hidden: tuple[int, ...] = (32,),
    activation: Activation = "relu",
    batch_norm: bool = False,
    dropout: float = 0.0,
    last_activation: bool = False,
    he_uniform: bool = False,
) -> nn.Module:
    """Fully connected layers (HashVFL's tables: hidden=32; VFLRecon: hidden=50, width 50, last_activation)."""
    return MLP(
        flat_width(features),
        [*hidden, width],
        activation=activation,
        batch_norm=batch_norm,
        dropout=dropout,
        last_activation=last_activation,
        he_uniform=he_uniform,
        sparse=isinstance(features.values, SparseRows),
    )


def mlp_top(
    inputs: int, outputs: int, *, hidden: tuple[int, ...] = (16,), batch_norm: bool = False, dropout: float = 0.0
) -> nn.Module:
    """Fully connected layers (HashVFL: hidden=16; VFLRecon: hidden=100-100)."""
    return MLP(inputs, [*hidden, outputs], batch_norm=batch_norm, dropout=dropout)


def relu_mlp_top(
    inputs: int, outputs: int, *, hidden: tuple[int, ...] = (32,), batch_norm: bool = False, dropout: float = 0.0
) -> nn.Module:
    """An activation first, then fully connected layers: for linear bottoms whose outputs are added."""
    return MLP(inputs, [*hidden, outputs], first_activation=True, batch_norm=batch_norm, dropout=dropout)


def _check(inputs: int, widths: Sequence[int], activation: str, dropout: float, sparse_first: bool) -> None:
    at_least("inputs", inputs, 1)
    if not widths:
        raise ConfigError("Expected widths to name at least one layer, got none: the last width is the output.")
    for width in widths:
        at_least("widths", width, 1)
    one_of("activation", activation, CURVES)
    probability("dropout", dropout)
    if sparse_first:
        raise ConfigError("Expected sparse=True without first_activation: sparse rows must meet a linear layer first.")


def _he_uniform(layer: nn.Module) -> None:
    if isinstance(layer, nn.Linear | SparseLinear):
        sparse = isinstance(layer, SparseLinear)  # its weight lies the other way round
        nn.init.kaiming_uniform_(layer.weight, mode="fan_out" if sparse else "fan_in", nonlinearity="relu")
        if layer.bias is not None:
            nn.init.zeros_(layer.bias)
