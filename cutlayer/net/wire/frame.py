"""Messages to bytes and back. Everything a peer says about a message is checked before it is used.

A peer may send whatever it likes, so the reader trusts nothing: types and shapes must be those that the manifest
allows (`AllowedMessages`), lengths must agree with shapes, and numbers must be finite. A message larger than one part
is sent in several, which are joined only as they arrive, so a peer's claim alone reserves no memory.
"""

import hashlib
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from cutlayer.cut import Shape
from cutlayer.errors import ProtocolError
from cutlayer.message import Kind, Message, Phase
from cutlayer.net.wire import schema
from cutlayer.net.wire.packet import PART as PART
from cutlayer.net.wire.packet import Packet
from cutlayer.wire import Encoding, decode, encode

LITTLE = sys.byteorder == "little"
DIMENSIONS = 6
TYPES = {torch.float32: 1, torch.float64: 2, torch.int64: 3, torch.uint8: 4}
TYPE_OF = {number: dtype for dtype, number in TYPES.items()}
WIRE_DTYPES: dict[torch.dtype, np.dtype[np.generic]] = {
    torch.float16: np.dtype("<f2"),
    torch.float32: np.dtype("<f4"),
    torch.float64: np.dtype("<f8"),
    torch.int64: np.dtype("<i8"),
    torch.uint8: np.dtype("|u1"),
}
SENT_AS = {Encoding.HALF: torch.float16, Encoding.BITS: torch.uint8}  # how float32 is sent
NUMBER = {kind: number for number, word in enumerate(schema.ENUMS["Kind"]) for kind in Kind if kind.name == word} | {
    phase: number for number, word in enumerate(schema.ENUMS["Phase"]) for phase in Phase if phase.name == word
}
KINDS = {number: kind for kind, number in NUMBER.items() if isinstance(kind, Kind)}
PHASES = {number: phase for phase, number in NUMBER.items() if isinstance(phase, Phase)}
ENCODINGS = dict(enumerate((Encoding.PLAIN, Encoding.HALF, Encoding.BITS)))
ENCODING_NUMBERS = {encoding: number for number, encoding in ENCODINGS.items()}
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
class AllowedMessages:
    """What one peer may send: whose messages, for which run, and the shapes of its embeddings or gradients."""

    run: bytes
    receiver: str
    senders: frozenset[str]  # parties whose messages arrive over this link
    rows: int  # at most, in one batch
    shape: Mapping[str, Shape] = field(default_factory=dict)  # one row of a sender's embedding, or of its gradient


@dataclass(frozen=True, slots=True)
class MessageHeader:
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
    wire_dtype: np.dtype[np.generic]  # of the numbers on the wire


class ReceivedMessage(NamedTuple):
    """A decoded message; the receiver decides which of its batches it belongs to."""

    header: MessageHeader
    step: int
    payload: Tensor


class Encoder:
    """Turns messages into packets. Most headers equal the last one to the same receiver, which is kept."""

    def __init__(self, run: bytes) -> None:
        self.run = run
        self._last: dict[str, tuple[object, bytes]] = {}  # by receiver: the header's contents and its bytes

    def packets(self, message: Message) -> list[Packet]:
        """A message as one or more packets, each with a view of its payload, which must be copied at once."""
        encoded = encode(message.payload, message.encoding)
        numbers = np.ascontiguousarray(encoded.numpy(force=True), WIRE_DTYPES[encoded.dtype])
        data = numbers.data.cast("B") if numbers.size else memoryview(b"")
        header, step = self._header(message, len(data)), message.batch.step
        starts = range(0, len(data) or 1, PART)
        return [Packet(header, data[start : start + PART], step, part) for part, start in enumerate(starts)]

    def _header(self, message: Message, size: int) -> bytes:
        """Everything about a message except its step and its payload."""
        payload, phase = message.payload, message.batch.phase
        contents = (message.sender, phase, message.kind, message.encoding, payload.dtype, payload.shape)
        last = self._last.get(message.receiver)
        if last is not None and last[0] == contents:
            return last[1]
        tensor = schema.Tensor(
            run=self.run,
            sender=message.sender,
            receiver=message.receiver,
            phase=NUMBER[phase],
            kind=NUMBER[message.kind],
            type=TYPES[payload.dtype],
            spelling=ENCODING_NUMBERS[message.encoding],
            shape=list(payload.shape),
            parts=_parts(size),
        )
        header: bytes = schema.Frame(tensor=tensor).SerializeToString()
        self._last[message.receiver] = contents, header
        return header


def packets(message: Message, run: bytes) -> list[Packet]:
    """One message, by itself."""
    return Encoder(run).packets(message)


def statement(packet: Packet) -> bytes:
    """What a sender signs when the label party forwards its message: all of it."""
    tensor = packet.frame.tensor
    facts = (tensor.sender, tensor.receiver, packet.step, tensor.phase, tensor.kind, tensor.type, tensor.spelling)
    text = repr((*facts, list(tensor.shape))).encode()
    return bytes(tensor.run) + text + hashlib.sha256(packet.payload).digest()


class FrameReader:
    """Joins the parts of one link's messages.

    A sender finishes a message before it starts the next, but messages that the label party forwards may arrive
    between the parts of its own.
    """

    def __init__(self, allowed: AllowedMessages) -> None:
        self.allowed = allowed
        self.header: bytes | None = None  # the last one checked: most messages repeat it
        self._checked: MessageHeader
        self._unfinished: dict[str, tuple[tuple[bytes, int], list[bytes | memoryview]]] = {}  # by sender

    def add(self, packet: Packet) -> ReceivedMessage | None:
        """Take the next part; return the whole message if this was its last."""
        header, payload, step, part = packet[:4]
        if header != self.header:
            self._checked, self.header = self._check(packet.frame.tensor), header
        checked = self._checked
        begun, parts = self._unfinished.pop(checked.sender, (None, []))
        if part != len(parts) or begun not in (None, (header, step)):
            raise ProtocolError(f"Expected the next or the first part of a message from {checked.sender}, got another.")
        full = PART if part + 1 < checked.parts else checked.size - PART * part
        if len(payload) != full:
            raise ProtocolError(f"Expected {full} bytes in a part from {checked.sender}, got {len(payload)}.")
        parts.append(payload)
        if len(parts) < checked.parts:
            self._unfinished[checked.sender] = (header, step), parts
            return None
        data = bytearray().join(parts)  # the only copy: the tensor's own memory
        return ReceivedMessage(checked, step, _numbers(checked, data))

    def _check(self, tensor: schema.TensorHeader) -> MessageHeader:
        """Refuse what the manifest does not allow, judging by the header."""
        allowed, shape = self.allowed, tuple(tensor.shape)
        if tensor.run != allowed.run:
            raise ProtocolError("Expected a message of this run, got one of another.")
        if tensor.sender not in allowed.senders:
            raise ProtocolError(f"Expected a message of {' or '.join(sorted(allowed.senders))}, got another sender's.")
        if tensor.kind not in KINDS or tensor.phase not in PHASES or tensor.type not in TYPE_OF:
            raise ProtocolError(f"Expected a known kind, phase and type from {tensor.sender}, got others.")
        kind, dtype = KINDS[tensor.kind], TYPE_OF[tensor.type]
        if tensor.spelling not in ENCODINGS or (tensor.spelling and dtype is not torch.float32):
            raise ProtocolError(f"Expected a known spelling from {tensor.sender}, got another.")
        count = prod(max(1, size) for size in shape[:DIMENSIONS])  # an empty dimension counts as one
        if len(shape) > DIMENSIONS or count * dtype.itemsize > CAPS[kind]:
            raise ProtocolError(
                f"Expected at most {CAPS[kind] // MEBI} MiB of {kind.value} from {tensor.sender}, got more."
            )
        if not self._fits(tensor.sender, kind, dtype, shape):
            raise ProtocolError(f"Expected {kind.value} from {tensor.sender} as the manifest says, got shape {shape}.")
        encoding = ENCODINGS[tensor.spelling]
        size = _bytes(prod(shape), dtype, encoding)
        if tensor.parts != _parts(size):
            raise ProtocolError(f"Expected the first part of a message from {tensor.sender}, got another.")
        phase = PHASES[tensor.phase]
        wire_dtype = WIRE_DTYPES[SENT_AS.get(encoding, dtype)]
        return MessageHeader(
            tensor.sender, tensor.receiver, phase, kind, dtype, encoding, shape, tensor.parts, size, wire_dtype
        )

    def _fits(self, sender: str, kind: Kind, dtype: torch.dtype, shape: Shape) -> bool:
        """Whether a kind of message may have this type and shape."""
        if kind in (Kind.SETUP, Kind.CIPHER, Kind.POINTS):
            return dtype in (torch.uint8, torch.int64) and 1 <= len(shape) <= 2
        if kind is Kind.SHARE:
            return dtype in (torch.int64, torch.float64) and len(shape) == 2
        rows = shape[0] if shape else 0
        expected = self.allowed.shape.get(sender, shape[1:])
        return dtype is not torch.uint8 and shape[1:] == expected and 0 < rows <= self.allowed.rows


def _parts(size: int) -> int:
    return max(1, -(-size // PART))


def _bytes(count: int, dtype: torch.dtype, encoding: Encoding) -> int:
    """The size that `wire.encoded_size` gives, without needing a tensor."""
    if encoding is Encoding.BITS:
        return -(-count // 8)
    return count * (2 if encoding is Encoding.HALF else dtype.itemsize)


def _numbers(header: MessageHeader, data: bytearray) -> Tensor:
    """The tensor that a message carries; it uses `data` as its memory where possible."""
    if not data:
        return torch.empty(header.shape, dtype=header.dtype)
    numbers = np.frombuffer(data, header.wire_dtype)
    if header.wire_dtype.kind == "f" and 0 in np.isfinite(numbers).tobytes():
        raise ProtocolError(f"Expected finite numbers from {header.sender}, got others.")
    if not LITTLE:
        numbers = numbers.astype(header.wire_dtype.newbyteorder())
    if header.encoding is not Encoding.BITS:
        numbers = numbers.reshape(header.shape)
    payload = torch.from_numpy(numbers)
    if header.encoding is Encoding.PLAIN:
        return payload
    return decode(payload, header.encoding, torch.empty((), dtype=header.dtype).expand(header.shape))
