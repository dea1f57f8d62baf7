"""Gradients of a client's model for many guesses at once, each with weights and passports of its own."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn.functional import batch_norm, instance_norm, layer_norm, log_softmax
from torch.overrides import TorchFunctionMode

from cutlayer.blocks.passport import passport_layers

Weights = dict[str, Tensor]
Factors = list[Tensor]  # of each layer with passports: gamma and beta
Gradient = Callable[[Tensor, Tensor, Factors], Tensor]  # from rows, label logits and passports to attempts x parameters


class Whole(nn.Module):
    """A client's bottom and top."""

    def __init__(self, bottom: nn.Module, top: nn.Module) -> None:
        super().__init__()
        self.bottom = bottom
        self.top = top

    def forward(self, rows: Tensor) -> Tensor:
        """Return logits."""
        output: Tensor = self.top(self.bottom(rows))
        return output


def gradients(model: Whole, names: list[str], weights: Weights) -> Gradient:
    """A function from guesses to the gradients of shared parameters, attempts x parameters."""
    layers = passport_layers(model)

    def loss(chosen: Weights, fixed: Weights, factors: Factors, rows: Tensor, labels: Tensor) -> Tensor:
        for layer, (gamma, beta) in zip(layers, factors, strict=True):
            layer.given = gamma, beta
        with WeightsApart():
            output = functional_call(model, {**fixed, **chosen}, (rows,))
        return -(labels.softmax(dim=1) * log_softmax(output, dim=1)).sum(dim=1).mean()

    def flat(weights: Weights, factors: Factors, rows: Tensor, labels: Tensor) -> Tensor:
        slopes = grad(loss)({name: weights[name] for name in names}, weights, factors, rows, labels)
        return torch.cat([slopes[name].flatten() for name in names])

    def gradient(rows: Tensor, labels: Tensor, factors: Factors) -> Tensor:
        slopes: Tensor = vmap(flat, randomness="different")(weights, factors, rows, labels)
        for layer in layers:
            layer.given = None
        return slopes

    return gradient


class WeightsApart(TorchFunctionMode):
    """Compute norms without their weights first: in one call, vmap's second derivatives are wrong."""

    def __torch_function__(
        self,
        func: Callable[..., Tensor],
        types: object,
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        """Call a function of torch, with a norm's scale and shift after it."""
        if func not in (batch_norm, instance_norm, layer_norm):
            return func(*args, **(kwargs or {}))
        parts: dict[str, Any] = {"weight": None, "bias": None, **(kwargs or {})}
        weight, bias = parts.pop("weight"), parts.pop("bias")
        output = func(*args, **parts)
        ones = () if func is layer_norm else (1,) * (output.dim() - 2)  # weights of others are for channels
        scaled = output if weight is None else output * weight.view(*weight.shape, *ones)
        return scaled if bias is None else scaled + bias.view(*bias.shape, *ones)
