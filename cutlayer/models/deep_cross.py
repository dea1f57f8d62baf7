"""Deep & Cross (Wang et al., arXiv:1708.05123): a bottom for tables with categories of many values."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from cutlayer._validate import at_least
from cutlayer.data.task import Column, ColumnKind, Features
from cutlayer.errors import ConfigError
from cutlayer.models.mlp import MLP
from cutlayer.models.parts.cross import Cross


class DeepCross(nn.Module):
    """Cross layers beside fully connected ones, on numeric columns and embedded categories.

    Inputs are one float matrix with a column per entry of `columns`. Categorical columns hold whole
    codes from 0 to levels - 1 (below 2^24, where float32 still counts exactly); the others
    pass through. Both branches meet in a linear layer of `width`.

    Codes are not checked, as that would wait for the device at every batch: a code out of range
    fails inside torch or reads another column's embedding. Give unseen values a level of their own.
    """

    numeric: Tensor
    categorical: Tensor
    starts: Tensor

    def __init__(
        self,
        columns: Sequence[Column],
        width: int = 32,
        *,
        embedding: int = 8,
        cross: int = 2,
        widths: Sequence[int] = (128, 64, 32),
    ) -> None:
        super().__init__()
        _check(columns, width, embedding, cross)
        coded = [column.kind is ColumnKind.CATEGORICAL for column in columns]
        levels = [column.levels for column, is_coded in zip(columns, coded, strict=True) if is_coded]
        places = torch.arange(len(columns))
        mask = torch.tensor(coded)
        self.register_buffer("numeric", places[~mask], persistent=False)
        self.register_buffer("categorical", places[mask], persistent=False)
        starts = torch.tensor([0, *levels]).cumsum(0)[:-1]  # all categories share one table of embeddings
        self.register_buffer("starts", starts, persistent=False)
        self.embedding = nn.Embedding(sum(levels), embedding)
        inputs = len(self.numeric) + embedding * len(levels)
        self.cross = nn.ModuleList(Cross(inputs) for _ in range(cross))
        self.deep = MLP(inputs, widths, last_activation=True)
        self.join = nn.Linear(inputs + widths[-1], width)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return (rows, width)."""
        first = self.embed(inputs)
        crossed = first
        for layer in self.cross:
            crossed = layer(first, crossed)
        output: Tensor = self.join(torch.cat([crossed, self.deep(first)], dim=1))
        return output

    def embed(self, inputs: Tensor) -> Tensor:
        """Return numeric columns, then the embeddings of the categorical ones, side by side."""
        codes = inputs[:, self.categorical].long() + self.starts
        embedded: Tensor = self.embedding(codes).flatten(1)
        return torch.cat([inputs[:, self.numeric].to(embedded.dtype), embedded], dim=1)


def deep_cross_bottom(features: Features, width: int, *, embedding: int = 8, cross: int = 2) -> nn.Module:
    """Deep & Cross for tables with categories (FedAdOb on Criteo)."""
    if not features.columns:
        raise ConfigError("Expected a table with named columns for the bottom deep-cross, got images or text.")
    return DeepCross(features.columns, width, embedding=embedding, cross=cross)


def _check(columns: Sequence[Column], width: int, embedding: int, cross: int) -> None:
    if not columns:
        raise ConfigError("Expected columns to describe at least one input column, got none.")
    for column in columns:
        if column.kind is ColumnKind.CATEGORICAL and column.levels < 1:
            raise ConfigError(
                f"Expected categorical column {column.name!r} to say how many levels it has, "
                f"got levels={column.levels}: count its codes."
            )
    at_least("width", width, 1)
    at_least("embedding", embedding, 1)
    at_least("cross", cross, 0)
