"""Abnormal codes: honest parties send like codes for a row, so one that differs much is flagged."""

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor

from cutlayer._validate import non_negative
from cutlayer.blocks.codebook import hamming
from cutlayer.blocks.sign import sign
from cutlayer.defence import Defence, Local
from cutlayer.errors import ProtocolError


class AbnormalCodes(Defence):
    """Flag rows for which two parties' codes differ in more than `distance` bits (half of them by default).

    A runtime check of the label party, in training and in serving, after `hash`; the label party's
    own embedding takes part by its sign, although nothing pulls that to the target codes. Flagged
    rows are counted, not refused: run.json states the share of training rows in the last epoch and
    of test rows in prediction, and LabelParty.flags names them.

    Protects: the outcome; the label party applies it.
    Guarantee: none. An attacker who submits the code of another class is caught only if that code
    lies far from the honest ones, and honest rows that are hard are flagged too; with private
    target codes parties never agree, and most rows are.
    Does not hide: anything; it changes no message.
    Specification: hashvfl, section 4.5.
    Paper: Qiu et al., HashVFL: Defending Against Data Reconstruction Attacks in Vertical Federated
    Learning (arXiv:2212.00325), section V-D.
    """

    strengths: ClassVar[tuple[str, ...]] = ()  # it hides nothing: it notices forged codes, beside hash

    def __init__(self, *, distance: float | None = None) -> None:
        if distance is not None:
            non_negative("distance", distance)
        self.distance = distance

    def inspect(self, arrived: Mapping[str, Tensor], own: Tensor | None, local: Local) -> Tensor | None:
        """Compare every pair of codes."""
        sent = [*arrived.values(), *([] if own is None else [own])]
        codes = [sign(code.detach().flatten(1)) for code in sent]
        first = codes[0]
        if len(codes) < 2:
            return torch.zeros(len(first), dtype=torch.bool, device=first.device)
        if len(lengths := {code.shape[1] for code in codes}) > 1:
            raise ProtocolError(
                f"Expected codes of one length to compare, got {sorted(lengths)}; give parties one width."
            )
        apart = [hamming(a, b) for i, a in enumerate(codes) for b in codes[i + 1 :]]
        limit = first.shape[1] / 2 if self.distance is None else self.distance
        return torch.stack(apart).amax(dim=0) > limit
