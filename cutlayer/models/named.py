"""Models by name, for the command line: `--bottom mlp:hidden=32`, `--top relu-mlp:hidden=30-10`.

Each function below is a name. A bottom is made from a party's features and the embedding's
width, a top from the joint width and the number of outputs.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import isqrt, prod
from typing import Any

from torch import nn

from cutlayer._validate import one_of
from cutlayer.blocks.sparse import SparseRows
from cutlayer.data.task import Features
from cutlayer.errors import ConfigError
from cutlayer.models.alexnet import AlexNet, AlexNetRest
from cutlayer.models.bert import Bert
from cutlayer.models.deep_cross import DeepCross
from cutlayer.models.defaults import default_bottom, default_top
from cutlayer.models.first_layer import FirstLayer
from cutlayer.models.lenet import LeNet, LeNetRest, LeNetTop
from cutlayer.models.mlp import MLP, Activation
from cutlayer.models.resnet import ResNet18, ResNet20
from cutlayer.spec import imported, settings


def mlp(
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
    values = features.values
    sparse = isinstance(values, SparseRows)
    return MLP(
        prod(values.shape[1:]),
        [*hidden, width],
        activation=activation,
        batch_norm=batch_norm,
        dropout=dropout,
        last_activation=last_activation,
        he_uniform=he_uniform,
        sparse=sparse,
    )


def linear(features: Features, width: int, *, bias: bool = False) -> nn.Module:
    """One linear layer, without bias or activation (binary reconstruction, SFA)."""
    return MLP(prod(features.values.shape[1:]), [width], bias=bias, sparse=isinstance(features.values, SparseRows))


def lenet(features: Features, width: int, *, batch_norm: bool = True, flat: bool = True) -> nn.Module:
    """Two convolutions, then a linear layer; flat=false sends the feature maps themselves (FedAdOb)."""
    return LeNet(_image(features), width=width if flat else None, batch_norm=batch_norm)


def first_layer(
    features: Features,
    width: int,
    *,
    maps: int = 8,
    padding: int = 0,
    batch_norm: bool = True,
    activation: Activation = "relu",
) -> nn.Module:
    """One convolution, for clients that share the rest (FedAdOb in horizontal learning); `--width` does not matter."""
    return FirstLayer(_image(features), maps=maps, padding=padding, batch_norm=batch_norm, activation=activation)


def alexnet(features: Features, width: int, *, flat: bool = True) -> nn.Module:
    """Five convolutions, then a linear layer; flat=false sends the feature maps themselves (FedAdOb)."""
    return AlexNet(_image(features), width=width if flat else None)


def resnet18(features: Features, width: int, *, max_pool: bool = False, flat: bool = True) -> nn.Module:
    """ResNet-18 with a stem for small images (HashVFL); flat=false sends the feature maps themselves (FedAdOb)."""
    return ResNet18(_image(features), width=width if flat else None, max_pool=max_pool)


def resnet20(features: Features, width: int) -> nn.Module:
    """ResNet-20 of He et al. (model completion)."""
    return ResNet20(_image(features), width=width)


def deep_cross(features: Features, width: int, *, embedding: int = 8, cross: int = 2) -> nn.Module:
    """Deep & Cross for tables with categories (FedAdOb on Criteo)."""
    if not features.columns:
        raise ConfigError("Expected a table with named columns for the bottom deep-cross, got images or text.")
    return DeepCross(features.columns, width, embedding=embedding, cross=cross)


def bert(features: Features, width: int, *, weights: str | None = None, layers: int = 12) -> nn.Module:
    """BERT on token ids (HashVFL on IMDb); needs the extra cutlayer[text]."""
    return Bert(width, weights=weights, layers=layers)


def mlp_top(
    inputs: int, outputs: int, *, hidden: tuple[int, ...] = (16,), batch_norm: bool = False, dropout: float = 0.0
) -> nn.Module:
    """Fully connected layers (HashVFL: hidden=16; VFLRecon: hidden=100-100)."""
    return MLP(inputs, [*hidden, outputs], batch_norm=batch_norm, dropout=dropout)


def relu_mlp(
    inputs: int, outputs: int, *, hidden: tuple[int, ...] = (32,), batch_norm: bool = False, dropout: float = 0.0
) -> nn.Module:
    """An activation first, then fully connected layers: for linear bottoms whose outputs are added."""
    return MLP(inputs, [*hidden, outputs], first_activation=True, batch_norm=batch_norm, dropout=dropout)


def lenet_top(inputs: int, outputs: int, *, maps: int = 16) -> nn.Module:
    """The rest of LeNet, for square maps of one `--bottom lenet:flat=false` (FedAdOb)."""
    return LeNetTop(_square(inputs, maps, "lenet"), outputs)


def lenet_rest(inputs: int, outputs: int, *, maps: int = 8, activation: Activation = "relu") -> nn.Module:
    """All of LeNet but its first convolution, for square maps of a `first-layer` (FedAdOb in horizontal learning)."""
    return LeNetRest(_square(inputs, maps, "lenet-rest"), outputs, activation=activation)


def alexnet_rest(inputs: int, outputs: int, *, maps: int = 64, batch_norm: bool = True) -> nn.Module:
    """All of AlexNet but its first convolution, for `--bottom first-layer:maps=64,padding=2` (FedAdOb, horizontal)."""
    return AlexNetRest(_square(inputs, maps, "alexnet-rest"), outputs, batch_norm=batch_norm)


def linear_top(inputs: int, outputs: int, *, maps: int = 0) -> nn.Module:
    """One linear layer (FedAdOb: AlexNet, Deep & Cross); with maps=512 on the mean of each map (ResNet-18)."""
    if not maps:
        return MLP(inputs, [outputs])
    if inputs % maps:
        raise ConfigError(f"Expected {maps} maps of one size for the top linear, got {inputs} numbers; set maps=.")
    mean = nn.Sequential(nn.Flatten(), nn.Unflatten(1, (maps, -1)), nn.AdaptiveAvgPool1d(1), nn.Flatten())
    return nn.Sequential(*mean, nn.Linear(maps, outputs))


def none(inputs: int, outputs: int) -> nn.Module:
    """No top: the joint embedding is the output, so its width must be the number of classes."""
    if inputs != outputs:
        raise ConfigError(f"Expected --width {outputs} for the top none, got {inputs}: the embeddings are the output.")
    return nn.Identity()


BOTTOMS: dict[str, Callable[..., nn.Module]] = {
    "default": default_bottom,
    "mlp": mlp,
    "linear": linear,
    "lenet": lenet,
    "first-layer": first_layer,
    "alexnet": alexnet,
    "resnet18": resnet18,
    "resnet20": resnet20,
    "deep-cross": deep_cross,
    "bert": bert,
}
TOPS: dict[str, Callable[..., nn.Module]] = {
    "default": default_top,
    "mlp": mlp_top,
    "relu-mlp": relu_mlp,
    "lenet": lenet_top,
    "lenet-rest": lenet_rest,
    "alexnet-rest": alexnet_rest,
    "linear": linear_top,
    "none": none,
}


@dataclass(frozen=True)
class Named:
    """A model by its spelling, e.g. `mlp:hidden=64-32`; called, it makes one."""

    spelling: str
    make: Callable[..., nn.Module]
    settings: dict[str, Any]

    def __call__(self, source: Any, size: int) -> nn.Module:
        """Make the model."""
        return self.make(source, size, **self.settings)


def bottom(spelling: str) -> Named:
    """Read the spelling of a bottom."""
    return _named(spelling, BOTTOMS, "bottom")


def top(spelling: str) -> Named:
    """Read the spelling of a top."""
    return _named(spelling, TOPS, "top")


def _named(spelling: str, known: dict[str, Callable[..., nn.Module]], what: str) -> Named:
    name, _, rest = spelling.partition(":")
    if "." not in name:
        one_of(what, name, known)
    make = imported(name, what) if "." in name else known[name]
    return Named(spelling, make, settings(rest, make, f"{what} {name}"))


def _square(inputs: int, maps: int, name: str) -> tuple[int, int, int]:
    """The shape of so many square maps."""
    side = isqrt(inputs // maps)
    if maps * side * side != inputs:
        raise ConfigError(f"Expected {maps} square maps for the top {name}, got {inputs} numbers; set maps=.")
    return maps, side, side


def _image(features: Features) -> tuple[int, ...]:
    shape = tuple(features.values.shape[1:])
    if len(shape) != 3:
        raise ConfigError(f"Expected images (channels, height, width) for a convolution, got inputs of shape {shape}.")
    return shape
