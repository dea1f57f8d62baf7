"""Gaussian noise: blur what is sent, entry by entry."""

from typing import ClassVar, Literal, get_args

import torch
from torch import Tensor

from cutlayer._validate import non_negative, one_of, positive
from cutlayer.blocks.gaussian_mechanism import blurred
from cutlayer.defence import Defence, Local

On = Literal["embedding", "gradient", "update"]


class GaussianNoise(Defence):
    """Add N(0, std^2) to every entry of an embedding or of a gradient, or in horizontal learning of an update.

    `on` says which of them. `std` is in units of the message as sent. The loss is a mean over the batch, so a
    gradient's entries carry a factor 1/B: on gradients the same `std` bites B times harder than it would on a sum,
    and a comparison across batch sizes must rescale it. With `clip` the whole batch is first shrunk so that its
    longest row is at most `clip` (VFLAIR uses 0.2). Noise is fresh in training and in prediction. The sender
    back-propagates through the shrinking as through a constant and not through the noise; the label party's own
    update stays clean.

    Protects: labels and features; the label party with `on=gradient`, each feature party with `on=embedding`.
    Guarantee: none stated: what is trained behind the noise is trained on clean values. Without `clip` rows are
    unbounded; with it the common factor still couples the rows of a batch, and every epoch releases another message.
    For an (epsilon, delta) that holds, use `dp-sgd:where=logits`, which clips per row and counts releases.
    Does not hide: anything that averaging removes noise from, such as a row's message over many
    epochs, or the mean of a class.
    Specification: baselines, section 8.
    Paper: the DP baseline of Gu et al., FedAdOb (arXiv:2406.01085), which states no clipping;
    `clip` is from VFLAIR (Zou et al., arXiv:2310.09827).
    """

    strengths: ClassVar[tuple[str, ...]] = ("std=0.1", "std=0.5", "std=1.0")
    partners: ClassVar[tuple[str, ...]] = ("label-dp",)

    def __init__(
        self,
        *,
        std: float = 0.1,
        on: On = "embedding",
        clip: float | None = None,
    ) -> None:
        non_negative("std", std)
        one_of("on", on, get_args(On))
        if clip is not None:
            positive("clip", clip)
        self.std = std
        self.on = on
        self.clip = clip

    @property
    def clients(self) -> bool:
        """Clients send no gradients of embeddings."""
        return self.on != "gradient"

    def protect(self, payload: Tensor, local: Local) -> Tensor:
        """Shrink the batch if need be, and add fresh noise."""
        if local.place.value != self.on:
            return payload
        if self.clip is not None:
            rows = payload.detach()[None] if payload.dim() == 1 else payload.detach().flatten(1)  # an update is one
            longest = torch.linalg.vector_norm(rows, dim=1).max()
            payload = payload * (self.clip / longest).clamp(max=1.0)  # a zero batch: infinity, so 1
        return blurred(payload, self.std, local.rng)
