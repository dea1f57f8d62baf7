"""LeNet: two small convolutions before the cut, three fully connected layers after it."""

from collections import OrderedDict

from torch import Tensor, nn

from cutlayer._validate import at_least
from cutlayer.data.task import Features
from cutlayer.errors import ConfigError
from cutlayer.models.mlp import CURVES, Activation
from cutlayer.models.parts.shape import image_shape, shape_of_images, shape_of_maps


class LeNet(nn.Module):
    """A bottom for small images: conv 5x5, ReLU, pool, conv 5x5, [batch norm], ReLU.

    Without `width` it ends there and sends feature maps of `out_shape`, for a LeNetTop. With
    `width` it goes on to pool and end in a linear layer, so that it is a whole bottom with an
    embedding of that width. Sides of 16 pixels or more are not padded (the classic sizes: 28 gives
    8); a shorter side, as of a third of a digit, is padded by 2, or the convolutions would use it up.
    """

    def __init__(
        self,
        shape: tuple[int, ...] = (1, 28, 28),
        *,
        width: int | None = None,
        maps: tuple[int, int] = (8, 16),
        batch_norm: bool = True,
    ) -> None:
        super().__init__()
        channels, height, across = image_shape(shape, least=4)
        if len(maps) != 2:
            raise ConfigError(f"Expected maps={maps} to be two numbers, one per convolution.")
        at_least("maps", min(maps), 1)
        padding = _pad(height), _pad(across)
        height, across = _after(height), _after(across)
        layers: OrderedDict[str, nn.Module] = OrderedDict(
            conv1=nn.Conv2d(channels, maps[0], 5, padding=padding),
            relu1=nn.ReLU(),
            pool1=nn.MaxPool2d(2),
            conv2=nn.Conv2d(maps[0], maps[1], 5, padding=padding, bias=not batch_norm),
        )
        if batch_norm:
            layers["norm2"] = nn.BatchNorm2d(maps[1])
        layers["relu2"] = nn.ReLU()
        self.out_shape: tuple[int, ...] = (maps[1], height, across)
        if width is not None:
            at_least("width", width, 1)
            layers["pool2"] = nn.MaxPool2d(2)
            layers["flatten"] = nn.Flatten()
            layers["fc"] = nn.Linear(maps[1] * (height // 2) * (across // 2), width)
            self.out_shape = (width,)
        self.layers = nn.Sequential(layers)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return feature maps, or (rows, width)."""
        output: Tensor = self.layers(inputs)
        return output


class LeNetTop(nn.Module):
    """The rest of LeNet: pool, then fully connected layers of 120, 84 and `outputs`.

    `shape` is the bottom's `out_shape`. Messages may arrive flat, since some cuts flatten them.
    """

    def __init__(
        self,
        shape: tuple[int, ...] = (16, 8, 8),
        outputs: int = 10,
        *,
        widths: tuple[int, int] = (120, 84),
        activation: Activation = "relu",
    ) -> None:
        super().__init__()
        channels, height, across = image_shape(shape, least=2)
        at_least("outputs", outputs, 1)
        if len(widths) != 2:
            raise ConfigError(f"Expected widths={widths} to be two numbers, one per hidden layer.")
        at_least("widths", min(widths), 1)
        self.shape = (channels, height, across)
        self.pool = nn.MaxPool2d(2) if activation == "relu" else nn.AvgPool2d(2)  # smooth, if anything is
        self.activation = nn.Sequential(*CURVES[activation]())
        self.fc1 = nn.Linear(channels * (height // 2) * (across // 2), widths[0])
        self.fc2 = nn.Linear(widths[0], widths[1])
        self.fc3 = nn.Linear(widths[1], outputs)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return (rows, outputs)."""
        hidden = self.activation(self.fc1(self.pool(inputs.reshape(-1, *self.shape)).flatten(1)))
        output: Tensor = self.fc3(self.activation(self.fc2(hidden)))
        return output


class LeNetRest(nn.Module):
    """All of LeNet but its first convolution: conv 5x5, activation, then a LeNetTop. `shape` is a FirstLayer's."""

    def __init__(
        self,
        shape: tuple[int, ...] = (8, 12, 12),
        outputs: int = 10,
        *,
        maps: int = 16,
        activation: Activation = "relu",
    ) -> None:
        super().__init__()
        channels, height, across = image_shape(shape, least=6)
        at_least("maps", maps, 1)
        self.shape = (channels, height, across)
        self.conv = nn.Conv2d(channels, maps, 5)
        self.activation = nn.Sequential(*CURVES[activation]())
        self.rest = LeNetTop((maps, height - 4, across - 4), outputs, activation=activation)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return (rows, outputs)."""
        output: Tensor = self.rest(self.activation(self.conv(inputs.reshape(-1, *self.shape))))
        return output


def lenet_bottom(features: Features, width: int, *, batch_norm: bool = True, flat: bool = True) -> nn.Module:
    """Two convolutions, then a linear layer; flat=false sends the feature maps themselves (FedAdOb)."""
    return LeNet(shape_of_images(features), width=width if flat else None, batch_norm=batch_norm)


def lenet_top(inputs: int, outputs: int, *, maps: int = 16) -> nn.Module:
    """The rest of LeNet, for the square maps that `--bottom lenet:flat=false` sends (FedAdOb)."""
    return LeNetTop(shape_of_maps(inputs, maps, "lenet"), outputs)


def lenet_rest_top(inputs: int, outputs: int, *, maps: int = 8, activation: Activation = "relu") -> nn.Module:
    """All of LeNet but its first convolution, for square maps of a `first-layer` (FedAdOb in horizontal learning)."""
    return LeNetRest(shape_of_maps(inputs, maps, "lenet-rest"), outputs, activation=activation)


def _pad(side: int) -> int:
    return 0 if side >= 16 else 2


def _after(side: int) -> int:
    """Return what two convolutions and a pool leave of a side."""
    lost = 4 - 2 * _pad(side)
    return (side - lost) // 2 - lost
