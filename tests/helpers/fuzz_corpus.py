"""Valid inputs for the fuzzers: openings, notes on every topic, messages of every kind, type, encoding and phase.

Parts are 64 bytes long, not 1 MiB, so that small inputs reach the code that joins parts.
"""

import json
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch

from cutlayer.message import Batch, Kind, Message, Phase
from cutlayer.net.peers.handshake import Hello, Welcome, opening_packet, refusal_packet, welcome_statement
from cutlayer.net.trust.authority import Authority
from cutlayer.net.trust.identity import Identity
from cutlayer.net.wire import frame
from cutlayer.net.wire.packet import note
from cutlayer.wire import Encoding
from tests.helpers import certificates

PARTIES = ("bank", "shop", "cafe")
RUN = bytes(range(32))
PART = 64  # bytes, for this purpose
ROWS = 8
SHAPES = {"bank": (4,), "shop": (4,)}
MANIFEST = {"parties": list(PARTIES), "cut": "concat", "bottoms": {"shop": "mlp"}}
SIZE = struct.Struct("<I")


def join(frames: Sequence[bytes]) -> bytes:
    """Frames as one input."""
    return b"".join(SIZE.pack(len(data)) + data for data in frames)


def split(data: bytes) -> list[bytes]:
    """An input's frames; any bytes are an input."""
    frames: list[bytes] = []
    while len(data) >= SIZE.size and len(frames) < 64:
        size = SIZE.unpack_from(data)[0] % (1 << 16)
        frames.append(data[SIZE.size : SIZE.size + size])
        data = data[SIZE.size + size :]
    return frames or [data]


def make_keys(folder: Path) -> dict[str, Identity]:
    """An identity for every party."""
    authority = Authority.create(folder / "authority", "fuzz")
    for name in PARTIES:
        certificates.join(authority, folder / name, name)
    return {name: Identity.load(folder / name) for name in PARTIES}


def _sent(message: Message, keys: Identity | None = None) -> bytes:
    frames = []
    for number, packet in enumerate(frame.packets(message, RUN), start=1):
        header = packet.frame
        if keys is not None:
            header.tensor.certificate = keys.shown
            header.tensor.signature = keys.sign(frame.statement(packet))
        packet = packet._replace(header=header.SerializeToString(), number=number, generation=1)
        frames.append(packet.to_bytes())
    return join(frames)


@contextmanager
def small_parts() -> Iterator[None]:
    """Messages are split every 64 bytes."""
    before, frame.PART = frame.PART, PART
    try:
        yield
    finally:
        frame.PART = before


@small_parts()
def corpus(keys: dict[str, Identity]) -> list[bytes]:
    """All valid inputs."""
    return [*_openings(keys), *_notes(), *_messages(keys)]


def _openings(keys: dict[str, Identity]) -> list[bytes]:
    hello = Hello("shop", "0" * 32, "1" * 32, 3, json.dumps(MANIFEST), "2" * 32)
    welcome = Welcome("1" * 32, True, 3)
    signature = keys["bank"].sign(welcome_statement(hello, welcome, "bank")).hex()
    openings: list[Hello | Welcome] = [
        hello,
        Hello("shop", "0" * 32, "", 0, '{"parties": ["bank"], "lr": 0.1}', "2" * 32),
        welcome,
        Welcome("1" * 32, False, 0, keys["bank"].shown.decode(), signature),
    ]
    packets = [*map(opening_packet, openings), refusal_packet(["lr: here 1, at bank 2"])]
    return [join([packet.to_bytes()]) for packet in packets]


def _notes() -> list[bytes]:
    notes = {
        "regroup": {},
        "state": {"steps": [200, 400], "aligned": None},
        "align": {"id": None},
        "aligned": {"id": "00ff"},
        "facts": {"classes": 10},
        "shape": {"shape": [4]},
        "begin": {"step": 200},
        "saved": {},
        "done": {},
        "bye": {},
        "stopped": {"why": "RunError"},
    }
    packets = [note(topic, json.dumps(facts)) for topic, facts in notes.items()]
    numbered = [packet._replace(number=number, generation=1) for number, packet in enumerate(packets, start=1)]
    return [join([packet.to_bytes()]) for packet in numbered]


def _messages(keys: dict[str, Identity]) -> list[bytes]:
    whole, real = torch.arange(32, dtype=torch.int64).view(8, 4), torch.linspace(-1, 1, 32).view(8, 4)
    octets = torch.arange(96, dtype=torch.uint8)
    plain = [
        (Kind.EMBEDDING, real, Encoding.PLAIN),
        (Kind.EMBEDDING, real, Encoding.HALF),
        (Kind.EMBEDDING, real.sign(), Encoding.BITS),
        (Kind.EMBEDDING, real[:1], Encoding.PLAIN),
        (Kind.GRADIENT, real, Encoding.PLAIN),
        (Kind.GRADIENT, real.double(), Encoding.PLAIN),
        (Kind.SHARE, whole, Encoding.PLAIN),
        (Kind.SHARE, real.double(), Encoding.PLAIN),
        (Kind.SETUP, octets[:32], Encoding.PLAIN),
        (Kind.SETUP, whole, Encoding.PLAIN),
        (Kind.CIPHER, octets.view(3, 32), Encoding.PLAIN),
        (Kind.POINTS, octets.view(3, 32), Encoding.PLAIN),
        (Kind.POINTS, octets[:0].view(0, 32), Encoding.PLAIN),
    ]
    inputs = [
        _sent(Message(Batch(7, phase, octets[:0]), sender, receiver, kind, payload, encoding))
        for sender, receiver in (("shop", "bank"), ("bank", "cafe"))
        for phase in Phase
        for kind, payload, encoding in plain
    ]
    relayed = Message(Batch(0, Phase.ALIGN, octets[:0]), "shop", "cafe", Kind.SETUP, octets[:32], Encoding.PLAIN)
    return [*inputs, _sent(relayed), _sent(relayed, keys["shop"])]
