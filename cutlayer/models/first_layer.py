"""FirstLayer: one convolution before the cut, for clients that share all the rest of a network."""

from torch import Tensor, nn

from cutlayer._validate import at_least
from cutlayer.data.task import Features
from cutlayer.models.mlp import CURVES, Activation
from cutlayer.models.parts.shape import image_shape, shape_of_images


class FirstLayer(nn.Module):
    """A bottom of one convolution: conv, [batch norm], activation, pool (FedAdOb in horizontal learning).

    With `activation="sigmoid"` the pool is a mean: smooth, as the gradient inversion of Zhu et al. wants it.
    """

    def __init__(
        self,
        shape: tuple[int, ...] = (1, 28, 28),
        *,
        maps: int = 8,
        kernel: int = 5,
        padding: int = 0,
        batch_norm: bool = True,
        activation: Activation = "relu",
    ) -> None:
        super().__init__()
        for name, number in (("maps", maps), ("kernel", kernel)):
            at_least(name, number, 1)
        at_least("padding", padding, 0)
        channels, height, across = image_shape(shape, least=kernel + 1)
        self.layers = nn.Sequential()
        self.layers.add_module("conv", nn.Conv2d(channels, maps, kernel, padding=padding, bias=not batch_norm))
        if batch_norm:
            self.layers.add_module("norm", nn.BatchNorm2d(maps))
        self.layers.add_module("activation", nn.Sequential(*CURVES[activation]()))
        self.layers.add_module("pool", nn.MaxPool2d(2) if activation == "relu" else nn.AvgPool2d(2))
        lost = kernel - 1 - 2 * padding
        self.out_shape: tuple[int, ...] = (maps, (height - lost) // 2, (across - lost) // 2)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return feature maps."""
        output: Tensor = self.layers(inputs)
        return output


def first_layer_bottom(
    features: Features,
    width: int,
    *,
    maps: int = 8,
    padding: int = 0,
    batch_norm: bool = True,
    activation: Activation = "relu",
) -> nn.Module:
    """One convolution, for clients that share the rest (FedAdOb in horizontal learning); `--width` does not matter."""
    shape = shape_of_images(features)
    return FirstLayer(shape, maps=maps, padding=padding, batch_norm=batch_norm, activation=activation)
