"""AlexNet for small colour images: five convolutions before the cut, one linear layer after it."""

from collections import OrderedDict
from math import prod

from torch import Tensor, nn

from cutlayer._validate import at_least
from cutlayer.data.task import Features
from cutlayer.models.parts.shape import image_shape, shape_of_images, shape_of_maps

LAYERS = ((64, 5), (192, 5), (384, 3), (256, 3), (256, 3))  # maps and kernel of each convolution
POOLED = (1, 2, 5)  # convolutions followed by a pool


class AlexNet(nn.Module):
    """A bottom of five convolutions, each with batch norm and ReLU, and three pools.

    Without `width` it sends feature maps of `out_shape` (256 x 4 x 4 for 32 x 32), for an
    AlexNetTop. With `width` it ends in a linear layer, as a whole bottom. Every convolution keeps
    its size, so any image of 8 x 8 or more works, halves and thirds included.
    """

    def __init__(self, shape: tuple[int, ...] = (3, 32, 32), *, width: int | None = None) -> None:
        super().__init__()
        channels, height, across = image_shape(shape, least=8)
        layers = _convolutions(channels, first=1)
        self.out_shape: tuple[int, ...] = (LAYERS[-1][0], height // 8, across // 8)
        if width is not None:
            at_least("width", width, 1)
            layers["flatten"] = nn.Flatten()
            layers["fc"] = nn.Linear(prod(self.out_shape), width)
            self.out_shape = (width,)
        self.layers = nn.Sequential(layers)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return feature maps, or (rows, width)."""
        output: Tensor = self.layers(inputs)
        return output


class AlexNetTop(nn.Module):
    """The rest of AlexNet: one linear layer on the flattened maps. `shape` is the bottom's `out_shape`."""

    def __init__(self, shape: tuple[int, ...] = (256, 4, 4), outputs: int = 10) -> None:
        super().__init__()
        at_least("outputs", outputs, 1)
        self.fc = nn.Linear(prod(image_shape(shape, least=1)), outputs)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return (rows, outputs)."""
        output: Tensor = self.fc(inputs.flatten(1))
        return output


class AlexNetRest(nn.Module):
    """All of AlexNet but its first convolution. `shape` is a FirstLayer's, of 64 maps with kernel 5 and padding 2."""

    def __init__(self, shape: tuple[int, ...] = (64, 16, 16), outputs: int = 10, *, batch_norm: bool = True) -> None:
        super().__init__()
        channels, height, across = image_shape(shape, least=4)
        at_least("outputs", outputs, 1)
        self.shape = (channels, height, across)
        self.layers = nn.Sequential(_convolutions(channels, first=2, batch_norm=batch_norm))
        self.fc = nn.Linear(LAYERS[-1][0] * (height // 4) * (across // 4), outputs)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return (rows, outputs)."""
        output: Tensor = self.fc(self.layers(inputs.reshape(-1, *self.shape)).flatten(1))
        return output


def alexnet_bottom(features: Features, width: int, *, flat: bool = True) -> nn.Module:
    """Five convolutions, then a linear layer; flat=false sends the feature maps themselves (FedAdOb)."""
    return AlexNet(shape_of_images(features), width=width if flat else None)


def alexnet_rest_top(inputs: int, outputs: int, *, maps: int = 64, batch_norm: bool = True) -> nn.Module:
    """All of AlexNet but its first convolution, for `--bottom first-layer:maps=64,padding=2` (FedAdOb, horizontal)."""
    return AlexNetRest(shape_of_maps(inputs, maps, "alexnet-rest"), outputs, batch_norm=batch_norm)


def _convolutions(channels: int, first: int, *, batch_norm: bool = True) -> OrderedDict[str, nn.Module]:
    """Return the convolutions from number `first` on, each with [batch norm and] ReLU, some with a pool."""
    layers: OrderedDict[str, nn.Module] = OrderedDict()
    for number, (maps, kernel) in list(enumerate(LAYERS, start=1))[first - 1 :]:
        layers[f"conv{number}"] = nn.Conv2d(channels, maps, kernel, padding=kernel // 2, bias=not batch_norm)
        if batch_norm:
            layers[f"norm{number}"] = nn.BatchNorm2d(maps)
        layers[f"relu{number}"] = nn.ReLU()
        if number in POOLED:
            layers[f"pool{number}"] = nn.MaxPool2d(2)
        channels = maps
    return layers
