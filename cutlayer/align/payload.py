"""Payloads of an alignment: rows of bytes into messages, and back out of a peer's with every check."""

from collections.abc import Mapping
from hashlib import blake2b

import numpy as np
import torch
from numpy.typing import NDArray

from cutlayer.align import okvs
from cutlayer.align.curve import Bytes
from cutlayer.align.kernel import POINT
from cutlayer.align.shares import VALUE
from cutlayer.errors import ProtocolError
from cutlayer.message import Batch, Kind, Message, send

MOST_IDS = 50_000_000  # a side: what a peer sends is refused beyond, before anything is computed on it

Tags = NDArray[np.bytes_]


def bytes_message(batch: Batch, sender: str, receiver: str, kind: Kind, rows: Bytes) -> Message:
    """A message of rows of bytes. The copy is the receiver's own."""
    return send(batch, sender, receiver, kind, torch.from_numpy(np.array(rows)))


def _rows_in(message: Message, width: int, least: int, most: int) -> Bytes:
    payload = message.payload
    shape = tuple(payload.shape)
    if payload.dtype is not torch.uint8 or payload.ndim != 2 or shape[1] != width or not least <= shape[0] <= most:
        count = str(least) if least == most else f"{least} to {most}"
        raise ProtocolError(
            f"Expected {count} rows of {width} bytes from {message.sender}, got shape {shape} of {payload.dtype}."
        )
    return np.ascontiguousarray(payload.cpu().numpy())


def points_in(message: Message, least: int = 0, most: int = MOST_IDS) -> Bytes:
    """Points that a peer sent. Those of small order show when they are multiplied."""
    points = _rows_in(message, POINT, least, most)
    if (points[:, -1] >= 128).any():
        raise ProtocolError(f"Expected points of 255 bits from {message.sender}, got a larger number.")
    return points


def keys_in(inbox: Mapping[str, Message]) -> dict[str, bytes]:
    """Public keys by sender."""
    return {name: _rows_in(message, POINT, 1, 1).tobytes() for name, message in inbox.items()}


def tags_in(message: Message, most: int = MOST_IDS) -> Tags:
    """Tags that a peer sent, in its order."""
    return as_tags(_rows_in(message, VALUE, 0, most))


def sorted_tags_in(message: Message) -> Tags:
    """Tags that a peer sent, each once and in order: any other order could say something about its rows."""
    tags = tags_in(message)
    if (tags[1:] <= tags[:-1]).any():
        raise ProtocolError(f"Expected sorted tags, each once, from {message.sender}, got another order.")
    return tags


def table_in(message: Message) -> Bytes:
    """A key-value table that a peer sent."""
    table = _rows_in(message, VALUE, okvs.rows_for(0), okvs.rows_for(MOST_IDS))
    if (len(table) - okvs.HEAD) % 3:
        raise ProtocolError(f"Expected a table in three parts from {message.sender}, got {len(table)} rows.")
    return table


def digests(points: Bytes, purpose: bytes) -> Bytes:
    """16 bytes of BLAKE2b of every point, of its own for each purpose."""
    data = points.tobytes()
    parts = (data[start : start + POINT] for start in range(0, len(data), POINT))
    person = b"cutlayer " + purpose
    hashed = b"".join([blake2b(part, digest_size=VALUE, person=person).digest() for part in parts])
    return np.frombuffer(hashed, np.uint8).reshape(-1, VALUE)


def as_tags(rows: Bytes) -> Tags:
    """Rows of 16 bytes as values that sort and compare."""
    tags: Tags = np.ascontiguousarray(rows).view(f"S{VALUE}").ravel()
    return tags


def as_rows(tags: Tags) -> Bytes:
    """Back from tags to rows of 16 bytes."""
    return np.ascontiguousarray(tags).view(np.uint8).reshape(-1, VALUE)


def find(tags: Tags, among: Tags) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Which of the tags stand in a sorted list, and where."""
    if not len(among):
        return np.zeros(len(tags), bool), np.zeros(len(tags), np.int64)
    place = np.minimum(np.searchsorted(among, tags), len(among) - 1)
    return among[place] == tags, place
