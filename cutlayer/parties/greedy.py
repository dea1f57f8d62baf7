"""GreedyParty: a feature party that learns faster than agreed, so that the model comes to lean on it."""

from typing import Any

import torch
from torch import Tensor

from cutlayer.party import FeatureParty

GAMMA, LEAST, MOST = 1.0, 1.0, 5.0
LAST = "last_step"  # kept in the optimiser's state, so that checkpoints hold it


class GreedyParty(FeatureParty):
    """Lengthen every step of the optimiser, number by number: the active label inference of Fu et al.

    A step s becomes r s with r = 1 + s / last between 1 and 5, `last` being the step before as it was taken: what keeps
    going one way is hurried, up to five times, and what turns round is left alone. The top comes to rely on this
    party more than on the others, so its bottom, on which model-completion puts a head, knows labels better. Nothing
    that it sends breaks the protocol.

    The published optimiser is SGD with momentum; here any optimiser's step is scaled, and its own memory is not.

    Specification: baselines, section 1.
    Paper: Fu et al., Label Inference Attacks Against Vertical Federated Learning (USENIX Security 2022).
    """

    def update(self) -> None:
        """Step, then go further the same way."""
        before = [parameter.detach().clone() for parameter in self.parameters]
        super().update()
        if self.optimizer is None:
            return
        for parameter, start in zip(self.parameters, before, strict=True):
            state: dict[str, Any] = self.optimizer.state[parameter]
            with torch.no_grad():
                state[LAST] = hurried(parameter - start, state.get(LAST))
                parameter.copy_(start + state[LAST])


def hurried(step: Tensor, last: Tensor | None) -> Tensor:
    """A step times its ratio; the first step, and a step after zero, stay as they are."""
    if last is None:
        return step
    return step * torch.where(last != 0, 1 + GAMMA * step / last, LEAST).clamp(LEAST, MOST)
