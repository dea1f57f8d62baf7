"""Mutations of valid inputs by a mutator that knows the schema."""

import json
import random
from collections.abc import Sequence
from math import prod
from typing import Any

from cutlayer.errors import ProtocolError
from cutlayer.net.wire.packet import Packet
from tests.helpers.fuzz_corpus import PART, join, split

NUMBERS = (0, 1, 2, 3, 4, 5, 7, 8, 9, 16, 63, 64, 65, 127, 255, 1 << 16, 1 << 20, (1 << 31) - 1, 1 << 31, (1 << 32) - 1)
LARGE = (*NUMBERS, 1 << 32, (1 << 63) - 1, 1 << 63, (1 << 64) - 1)
TEXTS = (
    "",
    "bank",
    "shop",
    "cafe",
    "guest",
    "\x00",
    "é" * 50,
    "a" * 300,
    "null",
    "[" * 3000,
    "{" * 3000,
    '{"a":',
    "1e999",
)


def mutate(data: bytes, rng: random.Random, others: Sequence[bytes]) -> bytes:
    """Change an input: a field of a frame, the order of frames, or bytes."""
    frames = split(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        number = rng.randrange(len(frames))
        chance = rng.random()
        if chance < 0.65:
            frames[number] = _mutate_field(frames[number], rng)
        elif chance < 0.85:
            frames[number] = _mutate_bytes(frames[number], rng)
        elif chance < 0.9:
            frames.insert(rng.randrange(len(frames) + 1), frames[number])
        elif chance < 0.95:
            frames += split(rng.choice(others))[: rng.choice((1, 2))]
        else:
            rng.shuffle(frames)
    return join(frames[:16])


def _mutate_field(data: bytes, rng: random.Random) -> bytes:
    try:
        packet = Packet.from_bytes(data)
        header, payload = packet.frame, packet.payload
    except ProtocolError:
        return _mutate_bytes(data, rng)
    body = header.WhichOneof("body")
    if not body or rng.random() < 0.2:
        name = rng.choice(("step", "part", "generation", "number", "seen", "version"))
        changed: dict[str, Any] = {name: rng.choice(NUMBERS if name in ("part", "version") else LARGE)}
        return packet._replace(**changed).to_bytes()
    message = getattr(header, body)
    chosen = rng.choice(message.DESCRIPTOR.fields)
    if payload and rng.random() < 0.1:
        payload = _mutate_bytes(bytes(payload), rng)
    elif rng.random() < 0.1:
        message.ClearField(chosen.name)
    elif chosen.name == "shape":
        shape = [*message.shape, rng.choice(NUMBERS)] if rng.random() < 0.3 else list(message.shape)
        shape = [rng.choice(NUMBERS) if rng.random() < 0.4 else size for size in shape][: rng.choice((1, 2, 3, 8))]
        shape = rng.choices((0, 1, 4, 8, *NUMBERS[-3:]), k=rng.randint(0, 7)) if rng.random() < 0.5 else shape
        message.ClearField("shape")
        message.shape.extend(shape)
    elif chosen.type == chosen.TYPE_BYTES:
        setattr(message, chosen.name, _mutate_bytes(bytes(getattr(message, chosen.name)), rng))
    elif chosen.type == chosen.TYPE_STRING:
        old = getattr(message, chosen.name)
        text = _mutate_bytes(old.encode(), rng).decode(errors="replace")
        setattr(message, chosen.name, rng.choice(TEXTS) if rng.random() < 0.3 else _mutate_json(old, rng) or text)
    elif chosen.type in (chosen.TYPE_UINT32, chosen.TYPE_UINT64, chosen.TYPE_ENUM):
        narrow = chosen.type != chosen.TYPE_UINT64
        value = rng.choice(NUMBERS if narrow else LARGE)
        setattr(message, chosen.name, min(value, (1 << 31) - 1) if chosen.type == chosen.TYPE_ENUM else value)
    part = packet.part
    if body == "tensor" and rng.random() < 0.4:
        part, payload = _fit(header.tensor, part, payload, rng)
    return packet._replace(header=header.SerializeToString(), payload=payload, part=part).to_bytes()


def _fit(tensor: Any, part: int, payload: bytes | memoryview, rng: random.Random) -> tuple[int, bytes | memoryview]:
    """A payload as long as the rest of the message says, if that is one short part: else few get beyond its length."""
    size = {1: 4, 2: 8, 3: 8, 4: 1}.get(tensor.type, 1) * prod(tensor.shape)
    size = size // 2 if tensor.spelling == 1 else -(-size // 32) if tensor.spelling == 2 else size
    if size <= PART:
        part, tensor.parts, payload = 0, 1, rng.randbytes(size)
    return part, payload


def _mutate_json(text: str, rng: random.Random) -> str:
    """Another value for one of the facts, if these are facts."""
    try:
        facts = json.loads(text)
    except (ValueError, RecursionError):
        return ""
    if not isinstance(facts, dict) or not facts or rng.random() < 0.3:
        return ""
    values: tuple[Any, ...] = (
        None,
        True,
        -1,
        0,
        1 << 70,
        1.5,
        float("nan"),
        "",
        "\ud800",
        "x" * 500,
        [],
        [[]] * 9,
        {},
        {"a": {}},
        "0" * 32,
    )
    facts[rng.choice([*facts, "more"])] = rng.choice(values)
    return json.dumps(facts)


def _mutate_bytes(data: bytes, rng: random.Random) -> bytes:
    mutated = bytearray(data)
    at = rng.randrange(len(mutated) + 1)
    match rng.randrange(6):
        case 0 if mutated:
            mutated[at % len(mutated)] ^= 1 << rng.randrange(8)
        case 1 if mutated:
            mutated[at % len(mutated)] = rng.choice((0, 1, 127, 128, 255))
        case 2:
            del mutated[at : at + rng.choice((1, 2, 8, 64))]
        case 3:
            mutated[at:at] = rng.randbytes(rng.choice((1, 2, 8, 64)))
        case 4:
            mutated[at : at + 8] = rng.choice((b"\xff" * 8, b"\x00\x00\xc0\x7f" * 2, b"\x00\x00\x80\xff" * 2, bytes(8)))
        case _:
            del mutated[at:]
    return bytes(mutated)
