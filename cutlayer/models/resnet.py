"""Residual networks for small images: ResNet-18 (wide, projecting) and ResNet-20 (thin, parameter-free).

Both average over all positions before a last layer, so halves and thirds of an image need no
other sizes. Weights start at random (He's rule); nothing is downloaded.
"""

from collections import OrderedDict

from torch import Tensor, nn
from torch.nn import functional

from cutlayer._validate import at_least
from cutlayer.models._shape import image_shape


class Block(nn.Module):
    """Two 3x3 convolutions beside a shortcut; `project` decides how the shortcut changes its size."""

    def __init__(self, before: int, after: int, *, stride: int = 1, project: bool = False) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(before, after, 3, stride=stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(after)
        self.conv2 = nn.Conv2d(after, after, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(after)
        self.shortcut: nn.Module
        if stride == 1 and before == after:
            self.shortcut = nn.Identity()
        elif project:
            self.shortcut = nn.Sequential(nn.Conv2d(before, after, 1, stride=stride, bias=False), nn.BatchNorm2d(after))
        else:
            self.shortcut = Subsample(before, after, stride)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return maps of the same size, or smaller by the stride."""
        hidden = self.norm1(self.conv1(inputs)).relu()
        output: Tensor = (self.norm2(self.conv2(hidden)) + self.shortcut(inputs)).relu()
        return output


class Subsample(nn.Module):
    """Shortcut without parameters (option A of He et al.): skip pixels, and fill new channels with zeros."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.stride = stride
        self.below = (after - before) // 2
        self.above = after - before - self.below

    def forward(self, inputs: Tensor) -> Tensor:
        """Return every stride-th pixel, with the old channels in the middle of the new ones."""
        kept = inputs[:, :, :: self.stride, :: self.stride]
        return functional.pad(kept, (0, 0, 0, 0, self.below, self.above))


class ResNet18(nn.Module):
    """ResNet-18 with a 3x3 stem of stride 1, as is usual for images of 32 x 32.

    With `width` it ends in a linear layer; without, it sends the 512 feature maps of `out_shape` (4 x 4 for 32 x 32),
    for a top that averages each. `max_pool` keeps the original stem's pool (HashVFL).
    """

    def __init__(
        self, shape: tuple[int, ...] = (3, 32, 32), *, width: int | None = None, max_pool: bool = False
    ) -> None:
        super().__init__()
        channels, height, across = image_shape(shape, least=1)
        self.layers = _layers(channels, (64, 128, 256, 512), 2, True, max_pool, width)
        smaller = 16 if max_pool else 8
        self.out_shape: tuple[int, ...] = (512, -(-height // smaller), -(-across // smaller))
        if width is None:
            del self.layers.mean, self.layers.flatten
        else:
            self.out_shape = (width,)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return (rows, width), or feature maps."""
        output: Tensor = self.layers(inputs)
        return output


class ResNet20(nn.Module):
    """ResNet-20 for CIFAR by He et al.: three stages of 16, 32 and 64 maps, shortcuts without parameters.

    With `width` it ends in a linear layer; without, it sends the 64 averaged features.
    """

    def __init__(self, shape: tuple[int, ...] = (3, 32, 32), *, width: int | None = None) -> None:
        super().__init__()
        channels, _, _ = image_shape(shape, least=1)
        self.layers = _layers(channels, (16, 32, 64), 3, False, False, width)
        self.out_shape: tuple[int, ...] = (64 if width is None else width,)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return (rows, width), or (rows, 64)."""
        output: Tensor = self.layers(inputs)
        return output


def _layers(
    channels: int, stages: tuple[int, ...], blocks: int, project: bool, max_pool: bool, width: int | None
) -> nn.Sequential:
    layers: OrderedDict[str, nn.Module] = OrderedDict(
        conv=nn.Conv2d(channels, stages[0], 3, padding=1, bias=False),
        norm=nn.BatchNorm2d(stages[0]),
        relu=nn.ReLU(),
    )
    if max_pool:
        layers["pool"] = nn.MaxPool2d(3, stride=2, padding=1)
    before = stages[0]
    for number, after in enumerate(stages, start=1):
        first = Block(before, after, stride=1 if number == 1 else 2, project=project)
        layers[f"stage{number}"] = nn.Sequential(first, *(Block(after, after) for _ in range(blocks - 1)))
        before = after
    layers["mean"] = nn.AdaptiveAvgPool2d(1)
    layers["flatten"] = nn.Flatten()
    if width is not None:
        at_least("width", width, 1)
        layers["fc"] = nn.Linear(before, width)
    made = nn.Sequential(layers)
    made.apply(_he_normal)
    return made


def _he_normal(layer: nn.Module) -> None:
    if isinstance(layer, nn.Conv2d):
        nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
