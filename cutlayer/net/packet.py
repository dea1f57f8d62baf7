"""Packet: what crosses at once. The length of a header in four little-endian bytes, the header, the payload as it is.

The header is a protobuf `Frame`. The payload stays outside of it, since protobuf would copy it at every step.
"""

import struct
from typing import Any, NamedTuple

from google.protobuf.message import DecodeError

from cutlayer.errors import ProtocolError
from cutlayer.net import schema
from cutlayer.net.frame import PART, ROOM

SIZE = struct.Struct("<I")


class Packet(NamedTuple):
    """A frame, and the payload of its tensor if it has one."""

    frame: Any
    payload: bytes | memoryview = b""

    def to_bytes(self) -> bytes:
        """The packet on the wire: the one copy that a sender makes of a payload."""
        header = self.frame.SerializeToString()
        if len(header) > ROOM:
            raise ProtocolError(f"Expected at most {ROOM} bytes to say beside numbers, got {len(header)}.")
        return b"".join((SIZE.pack(len(header)), header, self.payload))

    @classmethod
    def from_bytes(cls, data: bytes) -> "Packet":
        """Read what a peer sent; its payload is a view of that, not a copy."""
        if not SIZE.size <= len(data) <= SIZE.size + ROOM + PART:
            raise ProtocolError(f"Expected a packet of at most {SIZE.size + ROOM + PART} bytes, got {len(data)}.")
        end: int = SIZE.size + SIZE.unpack_from(data)[0]
        if end > min(len(data), SIZE.size + ROOM):
            raise ProtocolError(f"Expected a header of at most {ROOM} bytes in a packet, got another length.")
        try:
            frame = schema.Frame.FromString(data[SIZE.size : end])
        except DecodeError as error:
            raise ProtocolError("Expected a header in protobuf, got something else.") from error
        if end < len(data) and frame.WhichOneof("body") != "tensor":
            raise ProtocolError("Expected nothing after a header without a tensor, got a payload.")
        return cls(frame, memoryview(data)[end:])
