"""Residual blocks, and the stack of them that both residual networks are."""

from collections import OrderedDict

from torch import Tensor, nn
from torch.nn import functional

from cutlayer._validate import at_least


class ResidualBlock(nn.Module):
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


def residual_layers(
    channels: int, stages: tuple[int, ...], blocks: int, project: bool, max_pool: bool, width: int | None
) -> nn.Sequential:
    """Return a stem, stages of blocks, the mean over all positions and, with `width`, a linear layer."""
    layers: OrderedDict[str, nn.Module] = OrderedDict(
        conv=nn.Conv2d(channels, stages[0], 3, padding=1, bias=False),
        norm=nn.BatchNorm2d(stages[0]),
        relu=nn.ReLU(),
    )
    if max_pool:
        layers["pool"] = nn.MaxPool2d(3, stride=2, padding=1)
    before = stages[0]
    for number, after in enumerate(stages, start=1):
        first = ResidualBlock(before, after, stride=1 if number == 1 else 2, project=project)
        layers[f"stage{number}"] = nn.Sequential(first, *(ResidualBlock(after, after) for _ in range(blocks - 1)))
        before = after
    layers["mean"] = nn.AdaptiveAvgPool2d(1)
    layers["flatten"] = nn.Flatten()
    if width is not None:
        at_least("width", width, 1)
        layers["fc"] = nn.Linear(before, width)
    stack = nn.Sequential(layers)
    stack.apply(_he_normal)
    return stack


def _he_normal(layer: nn.Module) -> None:
    if isinstance(layer, nn.Conv2d):
        nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
