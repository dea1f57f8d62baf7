"""Payloads of secure cuts: bytes and residues into messages, and back out of a peer's with every check."""

from typing import Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from cutlayer.crypto import Residues, Ring
from cutlayer.errors import DataError, ProtocolError
from cutlayer.message import Batch, Kind, Message, send

Number = TypeVar("Number", np.int64, np.float64)


class Checks(Protocol[Number]):
    """A ring, as far as a receiver needs it: it refuses numbers that are not its own."""

    def check(self, values: NDArray[Number], name: str = ..., /) -> NDArray[Number]:
        """Return the matrix, or say what is wrong with it."""
        ...


def bytes_message(batch: Batch, sender: str, receiver: str, kind: Kind, data: bytes) -> Message:
    """A message of bytes: a key or ciphertexts."""
    return send(batch, sender, receiver, kind, torch.frombuffer(bytearray(data), dtype=torch.uint8))


def bytes_in(message: Message) -> bytes:
    """The bytes that a peer sent."""
    if message.payload.dtype is not torch.uint8 or message.payload.ndim != 1:
        raise ProtocolError(f"Expected bytes from {message.sender}, got {message.payload.dtype} numbers.")
    return message.payload.cpu().numpy().tobytes()


def numbers_in(message: Message, shape: tuple[int, ...], ring: Checks[Number]) -> NDArray[Number]:
    """The matrix that a peer sent, of exactly this shape: residues, or floats where nothing is encrypted."""
    payload = message.payload
    wanted = torch.int64 if isinstance(ring, Ring) else torch.float64
    if payload.dtype is not wanted or tuple(payload.shape) != shape:
        raise ProtocolError(
            f"Expected shares of shape {shape} from {message.sender}, got {tuple(payload.shape)} of {payload.dtype}."
        )
    try:
        checked = ring.check(payload.cpu().numpy(), f"what {message.sender} sent")
    except DataError as error:
        raise ProtocolError(str(error)) from error
    return checked


def residues_in(message: Message, shape: tuple[int, int], ring: Ring) -> Residues:
    """The matrix of residues that a peer sent, of exactly this shape."""
    return numbers_in(message, shape, ring)
