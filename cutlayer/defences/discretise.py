"""Discretise: send entries rounded to a coarse grid."""

from typing import ClassVar, Literal, get_args

from torch import Tensor

from cutlayer._validate import at_least, one_of, positive
from cutlayer.defence import Defence, Local

On = Literal["gradient", "embedding"]


class Discretise(Defence):
    """Round every entry to a multiple of 2 * bound / bins, and to none beyond `bound`.

    With an even number of bins the grid has bins + 1 points from -bound to bound, with an odd one `bins` points that
    stop half a step before. Zero is one of them: entries below half a step are sent as 0. `bound` is in units of the
    message as sent. The loss is a mean over the batch, so a gradient's entries carry a factor 1/B: the same bound is
    coarser in larger batches. A feature party back-propagates as if nothing had been rounded, straight through
    (`on=embedding`, for which `bound` must fit embeddings: 3e-2 is meant for gradients).

    Protects: labels and features; the label party with `on=gradient`, each feature party with `on=embedding`.
    Guarantee: none (heuristic).
    Does not hide: signs and sizes to within a step: log2(bins + 1) bits per entry, which is enough to tell classes
    apart where gradients of different classes point in different ways.
    Specification: baselines, section 8 (multistep).
    Paper: the discretisation baseline of Fu et al., Label Inference Attacks Against Vertical Federated Learning
    (USENIX Security 2022), with bound 3e-2, and 1e-3 for Criteo; their code rounds but does not clip.
    """

    strengths: ClassVar[tuple[str, ...]] = ("bins=24", "bins=12", "bins=6")

    def __init__(self, *, bins: int = 12, bound: float = 3e-2, on: On = "gradient") -> None:
        at_least("bins", bins, 2)
        positive("bound", bound)
        one_of("on", on, get_args(On))
        self.bins = bins
        self.bound = bound
        self.on = on

    def protect(self, payload: Tensor, local: Local) -> Tensor:
        """Round to the grid."""
        if local.place.value != self.on:
            return payload
        step, furthest = 2 * self.bound / self.bins, self.bins // 2
        rounded = (payload.detach() / step).round().clamp(-furthest, furthest) * step
        return rounded + (payload - payload.detach())  # adds 0, and the gradient
