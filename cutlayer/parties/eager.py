"""EagerParty: a feature party that looks ahead, so that far-apart parties wait for each other less often."""

from collections import deque
from typing import cast

import torch
from torch import Tensor, nn
from torch.func import functional_call

from cutlayer.blocks.sparse import SparseRows
from cutlayer.cut import Cut
from cutlayer.errors import ConfigError
from cutlayer.message import Phase
from cutlayer.party import Equipment, FeatureParty
from cutlayer.spec import describe


class EagerParty(FeatureParty):
    """A feature party that goes on to later batches before the gradient of an earlier one is back (look-ahead).

    An update changes parameters in place, under the graphs of batches that are under way. So every batch runs on
    a copy of the parameters, and the copy's gradient is applied to the parameters as they are by then.
    """

    def __init__(self, name: str, features: Tensor | SparseRows, bottom: nn.Module, equipment: Equipment) -> None:
        super().__init__(name, features, bottom, equipment)
        if type(self.cut).offer is not Cut.offer:
            raise ConfigError(f"Expected a cut of one message each way for look-ahead, got {describe(self.cut)}.")
        if self.replaced:
            raise ConfigError("Expected no look-ahead beside a defence that changes the optimiser; set it to 0.")
        self._copies: deque[list[Tensor]] = deque()  # of the batches under way, the oldest first

    def embed(self, inputs: Tensor | SparseRows, phase: Phase) -> Tensor:
        """Run the bottom, in training on a copy of its parameters."""
        if phase is not Phase.TRAIN:
            return super().embed(inputs, phase)
        copies = {
            name: p.detach().clone().requires_grad_(p.requires_grad) for name, p in self.bottom.named_parameters()
        }
        self._copies.append([copy for copy in copies.values() if copy.requires_grad])
        return cast(Tensor, functional_call(self.bottom, copies, (inputs,)))

    def backward(self, tensors: list[Tensor], gradients: list[Tensor | None], retain: bool = False) -> None:
        """Back-propagate through the oldest batch's graph."""
        torch.autograd.backward(tensors, gradients)
        for parameter, copy in zip(self.parameters, self._copies.popleft(), strict=True):
            parameter.grad = copy.grad
