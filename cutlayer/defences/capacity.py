"""Capacity: send embeddings over a channel that passes so many bits per message, whatever is asked of it."""

import hashlib
from collections.abc import Iterable
from math import expm1, log, sqrt
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from cutlayer._validate import positive
from cutlayer.defence import Course, Defence, Local, Place

STEP = 0.01  # embeddings are rounded to this before noise is drawn for them


class Capacity(Defence):
    """Scale a row to length sqrt(w), w its numbers, add N(0, s^2) to each, and divide by sqrt(1 + s^2)."""

    strengths: ClassVar[tuple[str, ...]] = ("bits=16.0", "bits=8.0", "bits=4.0")

    def __init__(self, *, bits: float = 8.0) -> None:
        positive("bits", bits)
        self.bits = bits

    def protect(self, payload: Tensor, local: Local) -> Tensor:
        """Send the row as the channel leaves it; gradients are left alone."""
        if local.place is not Place.EMBEDDING:
            return payload
        rows = payload.flatten(1)
        width = rows.shape[1]
        length = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
        rows = rows * (sqrt(width) / length.clamp(min=1e-6))
        rounded = (rows.detach() / STEP).round()
        rows = rows + (rounded * STEP - rows.detach())
        spread = noise_std(self.bits, width)
        sent: Tensor = (rows + spread * keyed_normal(rounded, local.private_seed)) / sqrt(1 + spread**2)
        return sent.view_as(payload)


def noise_std(bits: float, width: int) -> float:
    """The s for which width / 2 * log2(1 + 1 / s^2) is `bits`."""
    return 1 / sqrt(expm1(2 * bits * log(2) / width))


def keyed_normal(rows: Tensor, secret: int) -> Tensor:
    """Standard normal numbers, a function of each row and a secret: the same row gets the same ones again."""
    width = rows.shape[1]
    half = -(-width // 2)
    key = secret.to_bytes(16, "little", signed=True)
    grid = rows.to("cpu", torch.int32).numpy()
    digests = (hashlib.shake_256(key + row.tobytes()).digest(16 * half) for row in grid)
    drawn = np.frombuffer(b"".join(digests), dtype=np.uint64).reshape(len(rows), 2, half)
    uniform = ((drawn >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
    radius, angle = np.sqrt(-2 * np.log(uniform[:, 0])), 2 * np.pi * uniform[:, 1]
    normal = np.concatenate([radius * np.cos(angle), radius * np.sin(angle)], axis=1)[:, :width]
    return torch.from_numpy(normal).to(rows)
