"""Messages to bytes and back. What a peer says about a message is checked before anything is made of it.

A peer may send whatever it likes, so the decoder believes nothing: types and shapes must be those that the
manifest allows (`Allowed`), lengths must agree with shapes, and numbers must be finite. A message larger than a
part comes in several; they are joined only as they arrive, so a peer's word alone reserves no memory.
"""

import hashlib
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any, NamedTuple

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
TYPES = {torch.float32: 1, torch.float64: 2, torch.int64: 3, torch.uint8: 4}
TYPE_OF = {number: dtype for dtype, number in TYPES.items()}
LETTERS: dict[torch.dtype, np.dtype[Any]] = {
    torch.float16: np.dtype("<f2"),
    torch.float32: np.dtype("<f4"),
    torch.float64: np.dtype("<f8"),
    torch.int64: np.dtype("<i8"),
    torch.uint8: np.dtype("|u1"),
}
CROSSED = {Encoding.HALF: torch.float16, Encoding.BITS: torch.uint8}  # as what float32 crosses
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
class Form:
    """What a header says about a message, once it has been checked."""

    sender: str
    receiver: str
    phase: Phase
    kind: Kind
    dtype: torch.dtype
    encoding: Encoding
    shape: Shape
    parts: int
    size: int  # bytes on the wire


class Arrived(NamedTuple):
    """A message as it came, before the receiver says which of its batches it belongs to."""

    form: Form
    step: int
    payload: Tensor
    certificate: bytes
    signature: bytes


class Encoder:
    """Makes tensors and payloads of messages. Most headers say what the last one to the same receiver said."""

    def __init__(self, run: bytes) -> None:
        self.run = run
        self._last: dict[str, tuple[Any, Any]] = {}  # by receiver: what the header says, and the header

    def frames(self, message: Message) -> Iterator[tuple[Any, memoryview]]:
        """A message as one or more protobuf tensors, each with a view of its payload, to be copied at once."""
        crossed = encode(message.payload.detach().cpu(), message.encoding)
        numbers = np.ascontiguousarray(crossed.numpy(), LETTERS[crossed.dtype])
        data = numbers.data.cast("B") if numbers.size else memoryview(b"")
        parts = max(1, -(-len(data) // PART))
        for part in range(parts):
            tensor = schema.Tensor()
            tensor.CopyFrom(self._header(message))
            tensor.step, tensor.part, tensor.parts = message.batch.step, part, parts
            yield tensor, data[part * PART : (part + 1) * PART]

    def _header(self, message: Message) -> Any:
        """All that a message says about itself, but for step and parts."""
        payload, phase = message.payload, message.batch.phase
        says = (message.sender, phase, message.kind, message.encoding, payload.dtype, payload.shape)
        last = self._last.get(message.receiver)
        if last is not None and last[0] == says:
            return last[1]
        header = schema.Tensor(
            run=self.run,
            sender=message.sender,
            receiver=message.receiver,
            phase=NUMBER[phase],
            kind=NUMBER[message.kind],
            type=TYPES[payload.dtype],
            spelling=SPELT[message.encoding],
            shape=list(payload.shape),
        )
        self._last[message.receiver] = says, header
        return header


def frames(message: Message, run: bytes) -> Iterator[tuple[Any, memoryview]]:
    """One message, by itself."""
    return Encoder(run).frames(message)


def statement(tensor: Any, payload: bytes | memoryview) -> bytes:
    """What a sender signs when a third party hands its message on: all of it."""
    names = ("sender", "receiver", "step", "phase", "kind", "type", "spelling")
    facts = (*(getattr(tensor, name) for name in names), list(tensor.shape))
    return bytes(tensor.run) + repr(facts).encode() + hashlib.sha256(payload).digest()


class Decoder:
    """Puts the parts of one link's messages together. One message at a time: a sender finishes what it began."""

    def __init__(self, allowed: Allowed) -> None:
        self.allowed = allowed
        self._said: Any = None  # what the last header said that was checked: most messages say the same again
        self._form: Form
        self._step = 0  # of the message whose parts these are
        self._parts: list[bytes | memoryview] = []

    def add(self, tensor: Any, payload: bytes | memoryview) -> Arrived | None:
        """Take the next part; the whole message if this was its last."""
        said, step, part = _said(tensor), tensor.step, tensor.part
        if self._parts and (said != self._said or step != self._step or part != len(self._parts)):
            raise ProtocolError("Expected the next part of the message that was begun, got something else.")
        if said != self._said:
            self._form = self._check(tensor)
            self._said = said
        form, self._step = self._form, step
        if part != len(self._parts):
            raise ProtocolError(f"Expected the first part of a message from {form.sender}, got another.")
        full = PART if part + 1 < form.parts else form.size - PART * part
        if len(payload) != full:
            raise ProtocolError(f"Expected {full} bytes in a part from {form.sender}, got {len(payload)}.")
        self._parts.append(payload)
        if len(self._parts) < form.parts:
            return None
        whole, self._parts = bytearray().join(self._parts), []  # the one copy: the tensor's own memory
        return Arrived(form, step, _numbers(form, whole), tensor.certificate, tensor.signature)

    def _check(self, tensor: Any) -> Form:
        """Refuse what the manifest does not allow, by what the first part says."""
        allowed, shape = self.allowed, tuple(tensor.shape)
        if tensor.run != allowed.run:
            raise ProtocolError("Expected a message of this run, got one of another.")
        if tensor.sender not in allowed.senders:
            raise ProtocolError(f"Expected a message of {' or '.join(sorted(allowed.senders))}, got another sender's.")
        if tensor.kind not in KINDS or tensor.phase not in PHASES or tensor.type not in TYPE_OF:
            raise ProtocolError(f"Expected a known kind, phase and type from {tensor.sender}, got others.")
        kind, dtype = KINDS[tensor.kind], TYPE_OF[tensor.type]
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
        encoding = SPELLINGS[tensor.spelling]
        size = _bytes(prod(shape), dtype, encoding)
        if tensor.parts != max(1, -(-size // PART)):
            raise ProtocolError(f"Expected the first part of a message from {tensor.sender}, got another.")
        phase = PHASES[tensor.phase]
        return Form(tensor.sender, tensor.receiver, phase, kind, dtype, encoding, shape, tensor.parts, size)


def _said(tensor: Any) -> tuple[Any, ...]:
    """All that a header says, but for what differs from one message or part to the next."""
    return (
        tensor.run,
        tensor.sender,
        tensor.receiver,
        tensor.phase,
        tensor.kind,
        tensor.type,
        tensor.spelling,
        tensor.parts,
        tuple(tensor.shape),
    )


def _bytes(count: int, dtype: torch.dtype, encoding: Encoding) -> int:
    """What `wire.encoded_size` says, without a tensor to say it of."""
    if encoding is Encoding.BITS:
        return -(-count // 8)
    return count * (2 if encoding is Encoding.HALF else dtype.itemsize)


def _numbers(form: Form, data: bytearray) -> Tensor:
    """The tensor that a message carries; it keeps `data` as its memory where it can."""
    crossed = CROSSED.get(form.encoding, form.dtype)
    if not data:
        return torch.empty(form.shape, dtype=form.dtype)
    numbers = np.frombuffer(data, LETTERS[crossed])
    if crossed.is_floating_point and not np.isfinite(numbers).all():
        raise ProtocolError(f"Expected finite numbers from {form.sender}, got others.")
    if not LITTLE:
        data = bytearray(numbers.byteswap().tobytes())
    payload = torch.frombuffer(data, dtype=crossed)
    if form.encoding is not Encoding.BITS:
        payload = payload.view(form.shape)
    if form.encoding is Encoding.PLAIN:
        return payload
    return decode(payload, form.encoding, torch.empty((), dtype=form.dtype).expand(form.shape))
