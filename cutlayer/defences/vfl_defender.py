"""VFLDefender: keep the signs of the gradient at the logits, and draw the sizes at random."""

from math import isfinite
from typing import ClassVar, Literal, get_args

import torch
from torch import Tensor

from cutlayer._validate import one_of
from cutlayer.defence import Defence, Local, Place
from cutlayer.errors import ConfigError
from cutlayer.rng import uniform_like

Variant = Literal["paper", "repaired"]
Reading = Literal["equation", "algorithm"]
Unit = Literal["row", "mean"]


class VFLDefender(Defence):
    """Replace every entry of the loss's gradient at the logits by a uniform draw of the same sign.

    A positive entry becomes U(0, `high`), a negative one U(`low`, 0); top and bottoms are updated with
    what flows back from there. The paper first clips to [low, high] and normalises each row, but
    both keep signs and the draw forgets sizes, so neither changes anything. An entry of exactly 0,
    common once a float32 softmax saturates, counts as positive in the paper's Eq. 7
    (`reading=equation`) and as negative in its Algorithm 2 (`reading=algorithm`).

    Thresholds are in units of one row's own loss and are divided by the batch size (`unit=row`);
    with `unit=mean` they are the sizes as they enter the top. The paper states neither. They are a
    factor on the learning rate and no more: Adam takes it out again, SGD does not. Their ratio
    decides where logits drift: with -low = high, C classes push the true logit up by half of high
    and the C - 1 others down by as much each.

    Signs do not shrink as rows are learned, so training descends a linear loss without a bottom and
    logits grow without end: a run with `variant=paper` often ends with a note that it diverged.
    `variant=repaired`, ours, clips to the thresholds and multiplies by U(0, 2) per entry: the mean
    is the clipped gradient, which shrinks as rows are learned.

    Protects: labels; the label party applies it.
    Guarantee: none (heuristic).
    Does not hide: the label. For cross-entropy the one negative entry of a row stands at its label,
    and the gradients that a feature party receives still point one way per class.
    Specification: vflrecon, section 5; `variant=repaired` from section 8.
    Paper: Zhu et al., Vulnerabilities of Data Protection in Vertical Federated Learning Training and
    Countermeasures, Eq. 7 and Algorithm 2.
    """

    strengths: ClassVar[tuple[str, ...]] = ("variant=repaired", "variant=paper")

    def __init__(
        self,
        *,
        low: float = -1.0,
        high: float = 1.0,
        variant: Variant = "paper",
        reading: Reading = "equation",
        unit: Unit = "row",
    ) -> None:
        if not (isfinite(low) and isfinite(high) and low < 0 < high):
            raise ConfigError(f"Expected finite thresholds low < 0 < high, got low={low} and high={high}.")
        one_of("variant", variant, get_args(Variant))
        one_of("reading", reading, get_args(Reading))
        one_of("unit", unit, get_args(Unit))
        self.low = low
        self.high = high
        self.variant = variant
        self.reading = reading
        self.unit = unit

    def protect(self, payload: Tensor, local: Local) -> Tensor:
        """Draw sizes at random at the logits; messages follow from there."""
        if local.place is not Place.LOGITS:
            return payload
        part = 1 / max(len(payload), 1) if self.unit == "row" else 1.0  # the loss is a mean over the batch
        draw = uniform_like(payload, local.rng)
        if self.variant == "repaired":
            return payload.clamp(self.low * part, self.high * part) * 2 * draw
        size = 1 - draw  # in (0, 1]: a size of 0 would lose the sign
        positive = payload >= 0 if self.reading == "equation" else payload > 0
        return torch.where(positive, self.high * part, self.low * part) * size
