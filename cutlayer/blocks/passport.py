"""Passport: a layer whose output is scaled and shifted by numbers that only its owner can compute.

y = gamma * N(W x) + beta, with gamma = T(W s) and beta = T(W s'). The passports s and s' are drawn anew for every
batch, in training and in prediction, each channel around a secret mean; T is a small autoencoder. Gradients flow to W
along all three paths. The secret means are saved with the weights: a model with quite other means is another model.
"""

from math import sqrt

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from cutlayer.draws import Draws
from cutlayer.errors import ConfigError
from cutlayer.rng import first_weights, normal_like

SLOPE = 0.01  # of the autoencoder's leaky ReLU
NARROWER = 4  # times, in the autoencoder's middle


class PassportLayer(nn.Module):
    """A convolution or a linear layer with passports in place of its bias.

    A convolution is followed by batch norm without weights of its own, and gamma and beta are means over the picture. A
    linear layer has no batch norm; its gamma and beta are `bounded` by tanh, or large passports would let outputs
    explode (the paper has no tanh, published code has).
    """

    means: Tensor  # secret: one for gamma and one for beta, per channel of the input
    size: Tensor  # of the pictures that it was trained on; 0 before

    def __init__(
        self,
        inner: nn.Conv2d | nn.Linear,
        rng: Draws,
        *,
        mean_range: float,
        variance: float,
        bounded: bool = True,
        centred: bool = False,
    ) -> None:
        super().__init__()
        self.convolves = isinstance(inner, nn.Conv2d)
        self.inner = inner
        inner.bias = None
        wide = inner.out_channels if isinstance(inner, nn.Conv2d) else inner.out_features
        middle = max(1, wide // NARROWER)
        with first_weights(rng.child()):
            self.coder = nn.Sequential(
                nn.Linear(wide, middle, bias=False), nn.LeakyReLU(SLOPE), nn.Linear(middle, wide, bias=False)
            )
        self.norm = nn.BatchNorm2d(wide, affine=False) if isinstance(inner, nn.Conv2d) else nn.Identity()
        self.mean_range, self.variance, self.bounded, self.centred = mean_range, variance, bounded, centred
        self.register_buffer("means", torch.empty(2, inner.weight.shape[1]))
        self.register_buffer("size", torch.zeros(2, dtype=torch.int64))
        self.given: tuple[Tensor, Tensor] | None = None  # gamma and beta, where somebody knows or tries them
        self.forget_secret(rng)

    def forget_secret(self, rng: Draws) -> None:
        """Draw other secret means, as somebody has to who knows everything else."""
        drawn = rng.uniform(self.means.shape)
        self.means.copy_(self.mean_range * ((1 - 2 * drawn) if self.centred else -drawn).to(self.means))

    def passports(self, like: Tensor) -> Tensor:
        """Fresh passports for gamma and for beta, of the shape of one row of the input."""
        spread = sqrt(self.variance)
        shape = (2, *like.shape[1:])
        means = self.means.view(2, -1, *[1] * (like.dim() - 2)).to(like)
        return means + spread * normal_like(like.new_empty(shape))

    def factors(self, like: Tensor) -> tuple[Tensor, Tensor]:
        """Gamma and beta of fresh passports, a number per channel of the output."""
        if self.given is not None:
            return self.given
        seen = self.weigh(self.passports(like))
        if self.convolves:
            seen = seen.mean(dim=(2, 3))
        gamma, beta = self.coder(seen)
        return (gamma.tanh(), beta.tanh()) if self.bounded and not self.convolves else (gamma, beta)

    def weigh(self, inputs: Tensor) -> Tensor:
        """W x, and nothing else."""
        output: Tensor = self.inner(inputs) if self.convolves else linear(inputs, self.inner.weight)
        return output

    def forward(self, inputs: Tensor) -> Tensor:
        """Scale and shift."""
        self._check(inputs)
        output = self.norm(self.weigh(inputs))
        gamma, beta = (
            factor.view(*factor.shape, *[1] * (output.dim() - factor.dim() - (factor.dim() == 1)))
            for factor in self.factors(inputs)
        )
        shifted: Tensor = gamma * output + beta
        return shifted

    def _check(self, inputs: Tensor) -> None:
        """Passports have the size of the pictures that are trained on."""
        if not self.convolves:
            return
        size = tuple(inputs.shape[2:])
        if self.training and not self.size.any():
            self.size.copy_(torch.tensor(size))
        elif (known := tuple(self.size.tolist())) != size and any(known):
            raise ConfigError(
                f"Expected pictures that are {known[0]} x {known[1]} where the passport is, as in training, "
                f"got {size[0]} x {size[1]}; resize them."
            )


def passport_layers(model: nn.Module) -> list[PassportLayer]:
    """The layers of a model that hold passports."""
    return [layer for layer in model.modules() if isinstance(layer, PassportLayer)]


def layer_input(model: nn.Module, layer: PassportLayer, rows: Tensor) -> Tensor:
    """What reaches a layer of a model that is given some rows."""
    seen: list[Tensor] = []
    handle = layer.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0]))
    model(rows)
    handle.remove()
    return seen[0]
