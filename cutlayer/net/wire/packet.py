"""Packet: the unit that is sent. A head of fixed length, a header, and the raw payload.

The header is a protobuf `Frame`. Everything that differs between two messages of one kind is in the head, so most
headers equal the one before, byte for byte, and are neither built nor parsed again. The payload stays outside of
protobuf, which would copy it at every step.
"""

import struct
from typing import NamedTuple

from google.protobuf.message import DecodeError

from cutlayer.errors import ProtocolError
from cutlayer.net.wire import schema

VERSION = 2
PART = 1 << 20  # bytes of payload in one packet
HEADER_LIMIT = 1 << 16  # bytes of a header
HEAD = struct.Struct("<IQQQQII")  # version, number, seen, generation, step, part, length of the header
PACKET_LIMIT = HEAD.size + HEADER_LIMIT + PART  # bytes of a packet


class Packet(NamedTuple):
    """A header, the payload of its tensor if it has one, and where in the conversation it belongs."""

    header: bytes = b""
    payload: bytes | memoryview = b""
    step: int = 0
    part: int = 0  # of the tensor's `parts`, from 0
    generation: int = 0
    number: int = 0
    seen: int = 0
    version: int = VERSION

    @property
    def frame(self) -> schema.FrameHeader:
        """The parsed header: a note or a tensor."""
        try:
            frame: schema.FrameHeader = schema.Frame.FromString(self.header)
        except DecodeError as error:
            raise ProtocolError("Expected a header in protobuf, got something else.") from error
        if self.payload and frame.WhichOneof("body") != "tensor":
            raise ProtocolError("Expected nothing after a header without a tensor, got a payload.")
        return frame

    def to_bytes(self) -> bytes:
        """The packet on the wire."""
        return self.numbered(self.generation, self.number, self.seen)

    def numbered(self, generation: int, number: int, seen: int) -> bytes:
        """The packet on the wire with these numbers: the only copy that a sender makes of a payload."""
        header = self.header
        if len(header) > HEADER_LIMIT:
            raise ProtocolError(f"Expected at most {HEADER_LIMIT} bytes to say beside numbers, got {len(header)}.")
        head = HEAD.pack(self.version, number, seen, generation, self.step, self.part, len(header))
        return b"".join((head, header, self.payload))

    @classmethod
    def from_bytes(cls, data: bytes) -> "Packet":
        """Split what a peer sent, without parsing the header; the payload is a view, not a copy."""
        if not HEAD.size <= len(data) <= PACKET_LIMIT:
            raise ProtocolError(f"Expected a packet of {HEAD.size} to {PACKET_LIMIT} bytes, got {len(data)}.")
        version, number, seen, generation, step, part, length = HEAD.unpack_from(data)
        end = HEAD.size + length
        if length > HEADER_LIMIT or end > len(data):
            raise ProtocolError(f"Expected a header of at most {HEADER_LIMIT} bytes in a packet, got another length.")
        return cls(data[HEAD.size : end], memoryview(data)[end:], step, part, generation, number, seen, version)


def note(topic: str, text: str) -> Packet:
    """A note as a packet."""
    return Packet(schema.Frame(note=schema.Note(topic=topic, text=text)).SerializeToString())
