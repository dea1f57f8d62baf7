"""How a payload is encoded on the wire: as it is, as half-precision numbers, or one bit per number."""

from enum import Enum

import torch
from torch import Tensor

from cutlayer.errors import Diverged, ProtocolError


class Encoding(Enum):
    """How numbers cross."""

    PLAIN = "plain"  # as they are, float32 as a rule
    HALF = "half"  # float16, rounded to nearest
    BITS = "bits"  # +1 and -1 only, eight to a byte


WEIGHTS = torch.tensor([1, 2, 4, 8, 16, 32, 64, 128], dtype=torch.uint8)


def encode(payload: Tensor, encoding: Encoding) -> Tensor:
    """Return what crosses: the payload, halves, or packed bits (flat, the last byte filled up with zeros)."""
    if encoding is Encoding.HALF:
        return payload.half()
    if encoding is Encoding.BITS:
        # Asking a GPU for an answer stalls it, and the receiver checks anyway (Hash.inspect).
        if payload.device.type == "cpu" and not bool((payload.abs() == 1).all()):
            if bool(payload.isnan().any()):
                raise Diverged("Training diverged: an embedding is not a number; use a smaller --lr.")
            raise ProtocolError(
                "Expected a code of +1 and -1 to pack, got other numbers; put hash after other defences."
            )
        flat = (payload.flatten() > 0).to(torch.uint8)
        flat = torch.nn.functional.pad(flat, (0, -len(flat) % 8))
        return (flat.view(-1, 8) * WEIGHTS.to(flat.device)).sum(dim=1, dtype=torch.uint8)
    return payload


def decode(crossed: Tensor, encoding: Encoding, like: Tensor) -> Tensor:
    """Undo `encode`, for a payload of the shape and dtype of `like` (which the manifest states)."""
    if encoding is Encoding.HALF:
        if crossed.shape != like.shape:
            raise ProtocolError(f"Expected halves of shape {tuple(like.shape)}, got {tuple(crossed.shape)}.")
        return crossed.to(like.dtype)
    if encoding is Encoding.BITS:
        if crossed.dtype is not torch.uint8 or crossed.shape != (encoded_size(like, encoding),):
            raise ProtocolError(
                f"Expected {encoded_size(like, encoding)} bytes for a code of shape {tuple(like.shape)}, "
                f"got shape {tuple(crossed.shape)} of {crossed.dtype}."
            )
        bits = (crossed[:, None] & WEIGHTS.to(crossed.device)) != 0
        return (bits.flatten()[: like.numel()].to(like.dtype) * 2 - 1).view(like.shape)
    return crossed


def encoded_size(payload: Tensor, encoding: Encoding) -> int:
    """Bytes of a payload on the wire."""
    if encoding is Encoding.BITS:
        return -(-payload.numel() // 8)
    return payload.numel() * (2 if encoding is Encoding.HALF else payload.element_size())
