"""Sum: embeddings are added, in the open."""

from typing import ClassVar

from torch import Tensor

from cutlayer.cut import Cut, Shape
from cutlayer.errors import ConfigError, ProtocolError


class Sum(Cut):
    """The top reads the sum of the embeddings.

    Protects: nothing.
    Guarantee: none; the label party sees every embedding, and each feature party its gradients.
    Does not hide: whatever embeddings and gradients say.
    Paper: none; FedAdOb and binary reconstruction use it.
    """

    strengths: ClassVar[tuple[str, ...]] = ()  # it protects nothing: an audit has nothing to try

    def shape(self, shapes: list[Shape]) -> Shape:
        """All parties must send the same shape."""
        if len(set(shapes)) > 1:
            raise ConfigError(
                f"Expected embeddings of one shape to add, got {shapes}; use --cut concat or one --width."
            )
        return shapes[0]

    def join(self, embeddings: list[Tensor]) -> Tensor:
        """Add in the roster's order, so that the result does not depend on who answered first."""
        total = embeddings[0]
        for embedding in embeddings[1:]:
            if embedding.shape != total.shape:  # or torch would stretch one of them
                raise ProtocolError(
                    f"Expected embeddings of one shape to add, got {tuple(total.shape)} and {tuple(embedding.shape)}."
                )
            total = total + embedding
        return total
