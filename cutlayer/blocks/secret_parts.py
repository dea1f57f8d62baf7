"""Secret parts: what a module keeps even from those who are granted it, weights and all.

A white box shows a model as it is published or stolen, not what its owner draws afresh or keeps elsewhere. A module
that holds such a secret says itself how it looks without it, so nobody who hands out models names a defence.
"""

import copy
from typing import Protocol, runtime_checkable

from torch import nn

from cutlayer.draws import Draws


@runtime_checkable
class HoldsSecret(Protocol):
    """A module with a secret of its own."""

    def forget_secret(self, rng: Draws) -> None:
        """Put a guess, drawn from `rng`, in the place of the secret."""


def without_secrets(model: nn.Module, rng: Draws) -> nn.Module:
    """A copy of a model as others may come to know it: all weights, and guesses in place of secrets."""
    model = copy.deepcopy(model)
    for module in model.modules():
        if isinstance(module, HoldsSecret):
            module.forget_secret(rng)
    return model
