"""Sparsification: send the largest entries only."""

from typing import ClassVar, Literal, get_args

from torch import Tensor

from cutlayer._validate import one_of, positive, probability
from cutlayer.defence import Defence, Local

On = Literal["gradient", "embedding", "update"]


class Sparsification(Defence):
    """Send the entries of largest size, a `share` of those in the whole batch, and zeros in place of the others.

    Of n entries k = share * n may be sent, rounded down: those whose size is strictly above that of the
    (k + 1)-th largest. Rows are not looked at one by one: a row of small entries may be sent as zeros. Entries that
    tie with the (k + 1)-th are dropped, so a batch whose entries are all of one size is sent as zeros, and so is one
    with fewer than 1 / share entries; with `share=1` everything is sent. What was dropped is not kept for later.
    A feature party back-propagates through the entries that it sent (`on=embedding`). In horizontal learning it is
    the update of shared weights that is thinned out (`on=update`).

    Protects: labels and features; the label party with `on=gradient`, each feature party with `on=embedding`.
    Guarantee: none (heuristic).
    Does not hide: the largest entries, which are those that tell most: signs, directions and lengths of rows that
    stand out are sent as they are.
    Specification: baselines, section 8.
    Paper: the sparsification baseline of Gu et al., FedAdOb (arXiv:2406.01085), after Fu et al., Label Inference
    Attacks Against Vertical Federated Learning (USENIX Security 2022), whose code takes the k-th largest as the
    threshold and so sends one entry fewer.
    """

    strengths: ClassVar[tuple[str, ...]] = ("share=0.5", "share=0.1", "share=0.01")

    def __init__(self, *, share: float = 0.1, on: On = "gradient") -> None:
        positive("share", share)
        probability("share", share)
        one_of("on", on, get_args(On))
        self.share = share
        self.on = on

    @property
    def clients(self) -> bool:
        """Clients send no gradients of embeddings."""
        return self.on != "gradient"

    def protect(self, payload: Tensor, local: Local) -> Tensor:
        """Keep the largest entries."""
        if local.place.value != self.on:
            return payload
        size = payload.detach().abs()
        count = int(self.share * size.numel() + 1e-9)  # 0.29 * 100 is 28.999...
        if count >= size.numel():
            return payload
        threshold = size.flatten().kthvalue(size.numel() - count).values  # the (count + 1)-th largest
        return payload * (size > threshold)
