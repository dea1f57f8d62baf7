"""SparseLinear: a linear layer for rows that fill a few of very many columns.

A batch of tf-idf text with 173,762 columns takes 178 MB when it is made dense, almost all of it
zeros. Here a row costs only what it fills, and equals the dense layer in value and gradient.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from cutlayer._validate import at_least
from cutlayer.blocks.sparse import SparseRows
from cutlayer.errors import DataError


class SparseLinear(nn.Module):
    """y = xW + b for SparseRows x.

    `weight` is (inputs, width), the transpose of nn.Linear's, so that each filled column reads one
    contiguous row of it. Gradients are dense, so every optimiser works as on nn.Linear.
    """

    def __init__(self, inputs: int, width: int, bias: bool = True) -> None:
        super().__init__()
        at_least("inputs", inputs, 1)
        at_least("width", width, 1)
        self.in_features, self.out_features = inputs, width  # as nn.Linear calls them
        bound = 1 / math.sqrt(inputs)  # as nn.Linear starts
        self.weight = nn.Parameter(torch.empty(inputs, width).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(width).uniform_(-bound, bound)) if bias else None

    def forward(self, inputs: SparseRows) -> Tensor:
        """Return (rows, width); an empty row gives the bias."""
        if inputs.width != len(self.weight):
            raise DataError(
                f"Expected sparse rows of {len(self.weight)} columns, got {inputs.width}: "
                f"build the layer with inputs={inputs.width}."
            )
        output = functional.embedding_bag(
            inputs.columns,
            self.weight,
            inputs.offsets,
            mode="sum",
            per_sample_weights=inputs.values.to(self.weight.dtype),
            include_last_offset=True,
        )
        return output if self.bias is None else output + self.bias
