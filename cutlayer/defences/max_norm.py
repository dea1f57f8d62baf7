"""Max-norm: hide labels by giving every gradient the same expected length."""

import torch
from torch import Tensor

from cutlayer.defence import Defence, Local, Place
from cutlayer.rng import normal_like


class MaxNorm(Defence):
    """Stretch each gradient at random, along its own direction.

    Row g becomes g * (1 + xi * sqrt(m^2 / |g|^2 - 1)), with xi ~ N(0, 1) per row and m the largest
    norm in the batch. Afterwards every row has, in expectation, the largest squared norm in its
    batch, so length no longer separates positives from negatives. A zero row has no direction
    and stays zero.

    Protects: labels; the label party applies it.
    Guarantee: none (heuristic, binary labels).
    Does not hide: the line along which a gradient lies: its direction up to sign, and the sign
    of rows that were already long.
    Specification: baselines, section 7.
    Paper: Li et al., Label Leakage and Protection in Two-party Split Learning (arXiv:2102.08504).
    """

    def protect(self, payload: Tensor, local: Local) -> Tensor:
        """Stretch gradients; leave everything else alone."""
        if local.place is not Place.GRADIENT:
            return payload
        rows = payload.flatten(1)
        # Rows are scaled by their largest entry before squaring, or the squares of small gradients
        # underflow to 0; and g + xi * sqrt(m^2 - |g|^2) * g/|g| needs no division by |g|^2.
        peak = rows.abs().amax(dim=1, keepdim=True)
        scaled = rows / peak.where(peak > 0, 1.0)
        length = torch.linalg.vector_norm(scaled, dim=1, keepdim=True)
        direction = scaled / length.where(length > 0, 1.0)
        norm = peak * length
        largest = norm.max()
        share = norm / largest.where(largest > 0, 1.0)
        spread = largest * ((1 - share) * (1 + share)).sqrt()
        stretched: Tensor = rows + normal_like(norm, local.rng) * spread * direction
        return stretched.view_as(payload)
