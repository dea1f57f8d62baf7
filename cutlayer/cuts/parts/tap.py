"""Tap: the label party's bottom, opened just before its last layer, for cuts that must know what enters there."""

from typing import Any

from torch import Tensor, nn

from cutlayer.blocks.sparse import SparseRows
from cutlayer.errors import ConfigError


class Tap(nn.Module):
    """A bottom that ends in a linear layer. What enters that layer is kept until the next call, cut off from
    the graph behind it: the gradient that arrives there is completed before it flows on."""

    def __init__(self, bottom: nn.Module) -> None:
        super().__init__()
        self.bottom = bottom
        self.entered: Tensor | SparseRows | None = None  # what enters the last layer, a leaf of the graph
        self.behind: Tensor | None = None  # the same, still attached to the layers before it; None if there are none
        if not hasattr(self._layers()[-1], "in_features"):
            raise ConfigError(
                "Expected the label party's bottom to end in a linear layer for secure-sum; "
                "use --bottom linear, or mlp without last_activation."
            )

    def _layers(self) -> list[nn.Module]:
        layers = getattr(self.bottom, "layers", self.bottom)
        return list(layers) if isinstance(layers, nn.Sequential) else [layers]

    @property
    def single(self) -> bool:
        """Whether nothing that has weights or statistics comes before the last layer: rows enter it as they are."""
        return not any(layer.state_dict() for layer in self._layers()[:-1])

    @property
    def inputs(self) -> int:
        """Width of what enters the last layer."""
        return int(self._layers()[-1].in_features)  # type: ignore[arg-type]

    def forward(self, inputs: Tensor | SparseRows) -> Tensor:
        """Run the bottom."""
        *before, last = self._layers()
        hidden: Any = inputs
        for layer in before:
            hidden = layer(hidden)
        self.behind = hidden if isinstance(hidden, Tensor) and hidden.requires_grad else None
        if self.behind is not None:
            hidden = hidden.detach().requires_grad_()
        self.entered = hidden
        output: Tensor = last(hidden)
        return output

    def flow_on(self, more: Tensor | None) -> None:
        """Carry the gradient at the last layer's entrance, and what was missing of it, through the layers before."""
        if self.behind is None or not isinstance(self.entered, Tensor) or self.entered.grad is None:
            return
        self.behind.backward(self.entered.grad if more is None else self.entered.grad + more)

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "entered": None, "behind": None}  # copies of the model carry no batch
