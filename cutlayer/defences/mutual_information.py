"""Mutual information: a noisy bottleneck that lets through as little as the task needs."""

from typing import Any, ClassVar, Literal, get_args

import torch
from torch import Tensor, nn

from cutlayer._validate import one_of, positive
from cutlayer.defence import Defence, Role, Setting, Subject
from cutlayer.errors import ConfigError
from cutlayer.rng import normal_like

At = Literal["features", "label", "both"]


class MutualInformation(Defence):
    """MID: pass embeddings through z = mu(h) + sigma(h) * N(0, 1), and charge for what z tells about h.

    The loss grows by `weight` times KL(N(mu, sigma^2) || N(0, 1)), summed over an embedding's numbers and averaged
    over the batch: on average over the data this bounds the mutual information of h and z from above. mu
    and log sigma^2 are one linear layer of h, or a 1x1 convolution where embeddings are feature maps. With
    `at=features` each feature party ends its bottom so and sends z; with `at=label` the label party puts one bottleneck
    before its top, on the joint embedding, so that gradients tell less of labels. Noise is fresh in every
    pass, prediction included: the published code samples there as well, and the mean would tell more. That code
    has a further small network after z, and at the label party a bottleneck per feature party; here z feeds the top
    as it is. Feature maps hold many numbers: they want a smaller `weight`.

    Protects: labels and features; the label party with `at=label`, each feature party with `at=features`.
    Guarantee: none (heuristic). The bound is on an average, holds for the bottleneck and its noise alone, and
    is a term of the loss, not a limit.
    Does not hide: what the task needs: z still says the class; what averaging over epochs, or over predictions of
    one row, brings back; with `at=features` labels; with `at=label` features, and labels from gradients in part.
    Specification: none; after the paper and VFLAIR's code.
    Paper: Zou et al., Mutual Information Regularization for Vertical Federated Learning (arXiv:2301.01142).
    """

    strengths: ClassVar[tuple[str, ...]] = ("weight=0.001", "weight=0.01", "weight=0.1")

    def __init__(self, *, weight: float = 0.01, at: At = "features") -> None:
        positive("weight", weight)
        one_of("at", at, get_args(At))
        self.weight = weight
        self.at = at

    def model(self, model: nn.Module, setting: Setting) -> nn.Module:
        """End a feature party's bottom in a bottleneck, or begin the top with one."""
        if setting.subject is Subject.BOTTOM and setting.role is Role.FEATURE_PARTY and self.at != "label":
            last = _layers(model, "bottom")[-1]
            width = last.out_features if isinstance(last, nn.Linear) else last.out_channels
            return nn.Sequential(model, Bottleneck(width, isinstance(last, nn.Conv2d), self.weight))
        if setting.subject is Subject.TOP and self.at != "features":
            first = _layers(model, "top")[0]
            width = first.in_features if isinstance(first, nn.Linear) else first.in_channels
            return nn.Sequential(Bottleneck(width, isinstance(first, nn.Conv2d), self.weight), model)
        return model


class Bottleneck(nn.Module):
    """Draw z around a mean and with a variance that are learned, for `width` numbers a row or as many maps."""

    def __init__(self, width: int, maps: bool, weight: float) -> None:
        super().__init__()
        self.width = width
        self.maps = maps
        self.weight = weight
        self.heads = nn.Conv2d(width, 2 * width, 1) if maps else nn.Linear(width, 2 * width)

    def forward(self, values: Tensor) -> Tensor:
        """Sample, and charge for it in the backward pass; noise comes from the party's draws (rng.Stream.scope)."""
        if values.dim() != (4 if self.maps else 2) or values.shape[1] != self.width:
            raise ConfigError(
                f"Expected {self.width} {'feature maps' if self.maps else 'numbers'} a row at the bottleneck of "
                f"mutual-information, got shape {tuple(values.shape[1:])}; let the bottom end in a linear or "
                "convolution layer and the top begin with one."
            )
        mean, log_variance = self.heads(values).chunk(2, dim=1)
        drawn = mean + (log_variance / 2).exp() * normal_like(mean)
        return _charged(drawn, divergence(mean, log_variance), self.weight)


def divergence(mean: Tensor, log_variance: Tensor) -> Tensor:
    """KL(N(mean, variance) || N(0, 1)), summed over a row's numbers, the mean over rows."""
    each = (mean.square() + log_variance.exp() - 1 - log_variance) / 2
    return each.flatten(1).sum(dim=1).mean()


class _Charge(torch.autograd.Function):
    """Pass values on; backward, treat `weight * cost` as part of the loss, since `penalty` does not see a module."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, cost: Tensor, weight: float) -> Tensor:
        ctx.charge = torch.full_like(cost, weight)
        return values.view_as(values)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        return gradient, ctx.charge, None


def _charged(values: Tensor, cost: Tensor, weight: float) -> Tensor:
    return _Charge.apply(values, cost, weight)  # type: ignore[no-any-return, no-untyped-call]


def _layers(model: nn.Module, part: str) -> list[nn.Linear | nn.Conv2d]:
    """The layers that tell how wide a model is."""
    layers = [module for module in model.modules() if isinstance(module, nn.Linear | nn.Conv2d)]
    if not layers:
        raise ConfigError(f"Expected a {part} with a linear or convolution layer for mutual-information; leave it out.")
    return layers
