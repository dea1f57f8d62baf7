"""Concat: embeddings stand side by side."""

from typing import ClassVar

import torch
from torch import Tensor

from cutlayer.cut import Cut, Shape
from cutlayer.errors import ConfigError


class Concat(Cut):
    """The top reads the embeddings side by side.

    Protects: nothing.
    Guarantee: none; the label party sees every embedding, and each feature party its gradients.
    Does not hide: whatever embeddings and gradients say.
    Paper: split learning (SplitNN); HashVFL uses it too.
    """

    strengths: ClassVar[tuple[str, ...]] = ()  # it protects nothing: an audit has nothing to try

    def shape(self, shapes: list[Shape]) -> Shape:
        """Widths (or channels) add up; what follows them must be the same."""
        if len({shape[1:] for shape in shapes}) > 1:
            raise ConfigError(f"Expected embeddings that differ in their first size only, got {shapes}.")
        return (sum(shape[0] for shape in shapes), *shapes[0][1:])

    def join(self, embeddings: list[Tensor]) -> Tensor:
        """Concatenate along the second axis (channels, for convolutional embeddings)."""
        return embeddings[0] if len(embeddings) == 1 else torch.cat(embeddings, dim=1)
