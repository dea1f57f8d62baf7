"""Output noise: blur the loss's gradient at the logits, before it flows back."""

from math import sqrt
from typing import ClassVar, Literal, get_args

from torch import Tensor

from cutlayer._validate import non_negative, one_of
from cutlayer.defence import Defence, Local, Place
from cutlayer.rng import normal_like

Unit = Literal["mean", "row"]


class OutputNoise(Defence):
    """Add N(0, variance) to every entry of the gradient at the logits.

    Everything behind it follows: the top's own update, the label party's bottom and the gradients that
    are sent. So, unlike noise on messages, it costs the label party's model as well. `variance` is that of
    the gradient of the mean loss (`unit=mean`), whose entries carry a factor 1/B: the same number
    then bites B times harder in batches of B. With `unit=row` it is that of one row's own loss, and
    comparable across batch sizes.

    The paper speaks of noise on the top model's output and of noise on gradients. The second is meant here:
    a variance of 0.1 on the logits themselves should cost little (not measured), and the table says 73 points.

    Protects: labels; the label party applies it.
    Guarantee: none stated (rows are not clipped and releases not counted; `dp-sgd:where=logits` does both).
    Does not hide: what averaging removes noise from, such as a row's gradients over many epochs.
    Specification: vflrecon, section 5 (random noise).
    Paper: Zhu et al., Vulnerabilities of Data Protection in Vertical Federated Learning Training and
    Countermeasures, Table V.
    """

    strengths: ClassVar[tuple[str, ...]] = ("variance=0.001", "variance=0.01", "variance=0.1")

    def __init__(self, *, variance: float = 0.01, unit: Unit = "mean") -> None:
        non_negative("variance", variance)
        one_of("unit", unit, get_args(Unit))
        self.variance = variance
        self.unit = unit

    def protect(self, payload: Tensor, local: Local) -> Tensor:
        """Add fresh noise at the logits; leave messages alone, which follow from there."""
        if local.place is not Place.LOGITS:
            return payload
        part = 1 / max(len(payload), 1) if self.unit == "row" else 1.0  # the loss is a mean over the batch
        return payload + sqrt(self.variance) * part * normal_like(payload, local.rng)
