"""Residual networks for small images: ResNet-18 (wide, projecting) and ResNet-20 (thin, parameter-free).

Both average over all positions before a last layer, so halves and thirds of an image need no
other sizes. Weights start at random (He's rule); nothing is downloaded.
"""

from torch import Tensor, nn

from cutlayer.data.task import Features
from cutlayer.models.parts.residual import residual_layers
from cutlayer.models.parts.shape import image_shape, shape_of_images


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
        self.layers = residual_layers(channels, (64, 128, 256, 512), 2, True, max_pool, width)
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
        self.layers = residual_layers(channels, (16, 32, 64), 3, False, False, width)
        self.out_shape: tuple[int, ...] = (64 if width is None else width,)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return (rows, width), or (rows, 64)."""
        output: Tensor = self.layers(inputs)
        return output


def resnet18_bottom(features: Features, width: int, *, max_pool: bool = False, flat: bool = True) -> nn.Module:
    """ResNet-18 with a stem for small images (HashVFL); flat=false sends the feature maps themselves (FedAdOb)."""
    return ResNet18(shape_of_images(features), width=width if flat else None, max_pool=max_pool)


def resnet20_bottom(features: Features, width: int) -> nn.Module:
    """ResNet-20 of He et al. (model completion)."""
    return ResNet20(shape_of_images(features), width=width)
