"""Cross: the layer that multiplies columns in Deep & Cross (Wang et al., arXiv:1708.05123)."""

import math

import torch
from torch import Tensor, nn


class Cross(nn.Module):
    """One cross layer, x0 (w·x) + b + x: products of columns, at the cost of two vectors."""

    def __init__(self, inputs: int) -> None:
        super().__init__()
        bound = 1 / math.sqrt(inputs)
        self.weight = nn.Parameter(torch.empty(inputs).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.zeros(inputs))

    def forward(self, first: Tensor, inputs: Tensor) -> Tensor:
        """Return x0 (w·x) + b + x, for `first` x0 and `inputs` x."""
        return first * (inputs @ self.weight).unsqueeze(1) + self.bias + inputs
