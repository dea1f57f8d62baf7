"""Messages to bytes and back. What a peer says about a message is checked before anything is made of it.

A peer may send whatever it likes, so the decoder believes nothing: types and shapes must be those that the
manifest allows (`Allowed`), lengths must agree with shapes, and numbers must be finite. A message larger than a
part comes in several; they are joined only as they arrive, so a peer's word alone reserves no memory.
"""

import hashlib
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import isfinite, prod
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cutlayer.cut import Shape
from cutlayer.errors import ProtocolError
from cutlayer.message import Kind, Message, Phase
from cutlayer.net import schema
from cutlayer.wire import Encoding, decode, encode

VERSION = 1
LITTLE = sys.byteorder == "little"
PART = 1 << 20  # bytes of payload in one frame
ROOM = 1 << 16  # for all else in a frame; notes are parted alike
DIMENSIONS = 6
TYPES = {torch.float32: ("<f4", 1), torch.float64: ("<f8", 2), torch.int64: ("<i8", 3), torch.uint8: ("|u1", 4)}
TYPE_OF = {number: (dtype, letters) for dtype, (letters, number) in TYPES.items()}
NUMBER = {kind: number for number, word in enumerate(schema.ENUMS["Kind"]) for kind in Kind if kind.name == word} | {
    phase: number for number, word in enumerate(schema.ENUMS["Phase"]) for phase in Phase if phase.name == word
}
KINDS = {number: kind for kind, number in NUMBER.items() if isinstance(kind, Kind)}
PHASES = {number: phase for phase, number in NUMBER.items() if isinstance(phase, Phase)}
SPELLINGS = dict(enumerate((Encoding.PLAIN, Encoding.HALF, Encoding.BITS)))
SPELT = {encoding: number for number, encoding in SPELLINGS.items()}
MEBI = 1 << 20
CAPS = {  # bytes of one message, as decoded
    Kind.EMBEDDING: 256 * MEBI,
    Kind.GRADIENT: 256 * MEBI,
    Kind.SETUP: 64 * MEBI,
    Kind.CIPHER: 1024 * MEBI,
    Kind.SHARE: 256 * MEBI,
    Kind.POINTS: 1024 * MEBI,
}


@dataclass(frozen=True, slots=True)
class Allowed:
    """What one peer may send: whose messages, for which run, and of which shape its embeddings or gradients are."""

    run: bytes
    receiver: str
    senders: frozenset[str]  # those whose messages come over this link
    rows: int  # at most so many in a batch
    shape: Mapping[str, Shape] = field(default_factory=dict)  # one row of a sender's embedding, or of its gradient


@dataclass(frozen=True, slots=True)
class Arrived:
    """A message as it came, before the receiver says which of its batches it belongs to."""

    sender: str
    receiver: str
    step: int
    phase: Phase
    kind: Kind
    payload: Tensor
    encoding: Encoding
    certificate: bytes = b""
    signature: bytes = b""


def frames(message: Message, run: bytes) -> Iterator[tuple[Any, memoryview]]:
    """A message as one or more protobuf tensors, each with its payload: a view, to be copied before the caller goes on.
    """
    crossed = encode(message.payload.detach().cpu(), message.encoding).contiguous()
    letters = "<f2" if crossed.dtype is torch.float16 else TYPES[crossed.dtype][0]
    data = crossed.numpy().astype(letters, copy=False).reshape(-1).view(np.uint8).data
    parts = max(1, -(-len(data) // PART))
    for part in range(parts):
        tensor = schema.Tensor(
            run=run,
            sender=message.sender,
            receiver=message.receiver,
            step=message.batch.step,
            phase=NUMBER[message.batch.phase],
            kind=NUMBER[message.kind],
            type=TYPES[message.payload.dtype][1],
            spelling=SPELT[message.encoding],
            shape=list(message.payload.shape),
            part=part,
            parts=parts,
        )
        yield tensor, data[part * PART : (part + 1) * PART]


def statement(tensor: Any, payload: bytes | memoryview) -> bytes:
    """What a sender signs when a third party hands its message on: all of it."""
    names = ("sender", "receiver", "step", "phase", "kind", "type", "spelling")
    facts = (*(getattr(tensor, name) for name in names), list(tensor.shape))
    return bytes(tensor.run) + repr(facts).encode() + hashlib.sha256(payload).digest()


class Decoder:
    """Puts the parts of one link's messages together. One message at a time: a sender finishes what it began."""

    def __init__(self, allowed: Allowed) -> None:
        self.allowed = allowed
        self._first: Any = None
        self._parts: list[bytes | memoryview] = []

    def add(self, tensor: Any, payload: bytes | memoryview) -> Arrived | None:
        """Take the next part; the whole message if this was its last."""
        if self._first is None:
            self._check(tensor)
            self._first = tensor
        elif not _goes_on(self._first, tensor, len(self._parts)):
            raise ProtocolError(f"Expected the next part of a message of {self._first.sender}, got something else.")
        wanted = self._size()
        full = PART if tensor.part + 1 < tensor.parts else wanted - PART * (tensor.parts - 1)
        if len(payload) != full:
            raise ProtocolError(f"Expected {full} bytes in a part from {tensor.sender}, got {len(payload)}.")
        self._parts.append(payload)
        if len(self._parts) < tensor.parts:
            return None
        whole = bytearray().join(self._parts)  # the one copy: the tensor's own memory
        self._first, self._parts = None, []
        return _arrived(tensor, whole)

    def _size(self) -> int:
        first = self._first
        return _bytes(prod(first.shape), TYPE_OF[first.type][0], SPELLINGS[first.spelling])

    def _check(self, tensor: Any) -> None:
        """Refuse what the manifest does not allow, by what the first part says."""
        allowed, shape = self.allowed, tuple(tensor.shape)
        if tensor.run != allowed.run:
            raise ProtocolError("Expected a message of this run, got one of another.")
        if tensor.sender not in allowed.senders:
            raise ProtocolError(f"Expected a message of {' or '.join(sorted(allowed.senders))}, got another sender's.")
        if tensor.kind not in KINDS or tensor.phase not in PHASES or tensor.type not in TYPE_OF:
            raise ProtocolError(f"Expected a known kind, phase and type from {tensor.sender}, got others.")
        kind, dtype = KINDS[tensor.kind], TYPE_OF[tensor.type][0]
        if tensor.spelling not in SPELLINGS or (tensor.spelling and dtype is not torch.float32):
            raise ProtocolError(f"Expected a known spelling from {tensor.sender}, got another.")
        whole = prod(max(1, one) for one in shape[:DIMENSIONS])  # without rows, other dimensions still count
        if len(shape) > DIMENSIONS or whole * dtype.itemsize > CAPS[kind]:
            raise ProtocolError(
                f"Expected at most {CAPS[kind] // MEBI} MiB of {kind.value} from {tensor.sender}, got more."
            )
        if kind in (Kind.SETUP, Kind.CIPHER, Kind.POINTS):
            fits = dtype in (torch.uint8, torch.int64) and 1 <= len(shape) <= 2
        elif kind is Kind.SHARE:
            fits = dtype in (torch.int64, torch.float64) and len(shape) == 2
        else:
            fits = dtype is not torch.uint8 and shape[1:] == allowed.shape.get(tensor.sender, shape[1:])
            fits = fits and 0 < (shape[0] if shape else 0) <= allowed.rows
        if not fits:
            raise ProtocolError(f"Expected {kind.value} from {tensor.sender} as the manifest says, got shape {shape}.")
        count = _bytes(prod(shape), dtype, SPELLINGS[tensor.spelling])
        if tensor.part != 0 or tensor.parts != max(1, -(-count // PART)):
            raise ProtocolError(f"Expected the first part of a message from {tensor.sender}, got another.")


def _goes_on(first: Any, tensor: Any, part: int) -> bool:
    """Whether a part belongs to the message that `first` began, and is its next one."""
    same = ("run", "sender", "receiver", "step", "phase", "kind", "type", "spelling", "parts")
    return (
        tensor.part == part
        and all(getattr(first, name) == getattr(tensor, name) for name in same)
        and list(first.shape) == list(tensor.shape)
    )


def _bytes(count: int, dtype: torch.dtype, encoding: Encoding) -> int:
    """What `wire.encoded_size` says, without a tensor to say it of."""
    if encoding is Encoding.BITS:
        return -(-count // 8)
    return count * (2 if encoding is Encoding.HALF else dtype.itemsize)


def _finite(payload: Tensor) -> bool:
    """Whether all numbers are finite. A sum is: then they are; else a sum may have overflowed, so look again."""
    return isfinite(float(payload.sum())) or bool(payload.isfinite().all())


def _arrived(tensor: Any, data: bytearray) -> Arrived:
    dtype, letters = TYPE_OF[tensor.type]
    encoding, shape = SPELLINGS[tensor.spelling], tuple(tensor.shape)
    letters = {Encoding.HALF: "<f2", Encoding.BITS: "|u1"}.get(encoding, letters)
    numbers = np.frombuffer(data, letters)
    payload = torch.from_numpy(numbers if LITTLE else numbers.astype(numbers.dtype.newbyteorder("=")))
    if encoding is not Encoding.BITS:
        payload = payload.view(shape)
    if encoding is not Encoding.PLAIN:
        payload = decode(payload, encoding, torch.empty((), dtype=dtype).expand(shape))
    if payload.is_floating_point() and not _finite(payload):
        raise ProtocolError(f"Expected finite numbers from {tensor.sender}, got others.")
    return Arrived(
        tensor.sender,
        tensor.receiver,
        tensor.step,
        PHASES[tensor.phase],
        KINDS[tensor.kind],
        payload,
        encoding,
        tensor.certificate,
        tensor.signature,
    )
