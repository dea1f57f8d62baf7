"""Abnormal codes: honest parties send like codes for a row, so one that differs much is flagged."""

from collections.abc import Mapping

import torch
from torch import Tensor

from cutlayer._validate import non_negative
from cutlayer.codebook import hamming
from cutlayer.defence import Defence, Local
from cutlayer.sign import sign


class AbnormalCodes(Defence):
    """Flag rows for which two parties' codes differ in more than `distance` bits (half of them by default).

    A runtime check of the label party, in training and in serving, after `hash`; the label party's
    own embedding takes part by its sign. Flagged rows are counted, not refused: run.json states
    the share per phase, and LabelParty.flags names them.

    Guarantee: none. An attacker who submits the code of another class is caught only if that code
    lies far from the honest ones, and honest rows that are hard are flagged too.
    Does not hide: anything; it changes no message.
    Specification: hashvfl, section 4.5.
    Paper: Qiu et al., HashVFL: Defending Against Data Reconstruction Attacks in Vertical Federated
    Learning (arXiv:2212.00325), section V-D.
    """

    def __init__(self, *, distance: float | None = None) -> None:
        if distance is not None:
            non_negative("distance", distance)
        self.distance = distance

    def inspect(self, arrived: Mapping[str, Tensor], own: Tensor | None, local: Local) -> Tensor | None:
        """Compare every pair of codes."""
        codes = [sign(code.detach()) for code in [*arrived.values(), *([] if own is None else [own])]]
        first = codes[0]
        if len(codes) < 2 or first.dim() != 2:
            return torch.zeros(len(first), dtype=torch.bool, device=first.device)
        apart = [hamming(a, b) for i, a in enumerate(codes) for b in codes[i + 1 :]]
        limit = first.shape[1] / 2 if self.distance is None else self.distance
        return torch.stack(apart).amax(dim=0) > limit
