"""Messages to bytes and back, and everything that the decoder refuses before it makes something of it."""

import tracemalloc

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cutlayer.errors import ProtocolError
from cutlayer.message import Batch, Kind, Message, Phase
from cutlayer.net.wire import frame, schema
from cutlayer.net.wire.frame import CAPS, KINDS, NUMBER, PHASES, TYPES, AllowedMessages, FrameReader, packets, statement
from cutlayer.net.wire.packet import HEAD, HEADER_LIMIT, VERSION, Packet, note
from cutlayer.wire import Encoding
from tests.helpers.changes import change

RUN = b"\x01" * 32
ALLOWED = AllowedMessages(RUN, "bank", frozenset(["shop"]), rows=128, shape={"shop": (16,)})


def message(payload, kind=Kind.EMBEDDING, *, step=7, phase=Phase.TRAIN, encoding=Encoding.PLAIN):
    return Message(Batch(step, phase, torch.arange(0)), "shop", "bank", kind, payload, encoding)


def cross(sent, allowed=ALLOWED):
    """Through bytes and back."""
    decoder, arrived = FrameReader(allowed), None
    for packet in packets(sent, RUN):
        assert arrived is None
        arrived = decoder.add(Packet.from_bytes(packet.to_bytes()))
    return arrived


def check(sent, allowed=ALLOWED):
    arrived = cross(sent, allowed)
    assert arrived.payload.dtype == sent.payload.dtype and arrived.payload.shape == sent.payload.shape
    assert torch.equal(arrived.payload, sent.payload)
    form = arrived.header
    assert (form.sender, form.receiver, arrived.step) == ("shop", "bank", sent.batch.step)
    assert (form.kind, form.phase, form.encoding) == (sent.kind, sent.batch.phase, sent.encoding)


FLOATS = [dtype for dtype in TYPES if dtype.is_floating_point]
GOOD = [
    *((kind, torch.randn(5, 16, dtype=dtype)) for kind in (Kind.EMBEDDING, Kind.GRADIENT) for dtype in FLOATS),
    (Kind.EMBEDDING, torch.randint(-(2**62), 2**62, (128, 16))),
    *(
        (kind, torch.randint(0, 256, shape, dtype=torch.uint8))
        for kind in (Kind.SETUP, Kind.CIPHER, Kind.POINTS)
        for shape in ((9,), (3, 32))
    ),
    (Kind.SETUP, torch.tensor([3, 1])),
    (Kind.SHARE, torch.randint(-(2**62), 2**62, (4, 3))),
    (Kind.SHARE, torch.randn(4, 3, dtype=torch.float64)),
]


@pytest.mark.parametrize("part", [1 << 20, 64, 7])
@pytest.mark.parametrize(("kind", "payload"), GOOD, ids=lambda value: str(getattr(value, "dtype", value)))
def test_every_kind_and_type_comes_back_bit_for_bit(monkeypatch, kind, payload, part):
    monkeypatch.setattr(frame, "PART", part)
    for phase in Phase:
        check(message(payload, kind, phase=phase))


@pytest.mark.parametrize("part", [1 << 20, 5])
def test_halves_and_bits_come_back(monkeypatch, part):
    monkeypatch.setattr(frame, "PART", part)
    check(message(torch.randn(6, 16).half().float(), encoding=Encoding.HALF))
    allowed = AllowedMessages(RUN, "bank", frozenset(["shop"]), 128, {"shop": (5,)})
    check(message(torch.randint(0, 2, (7, 5)) * 2.0 - 1, encoding=Encoding.BITS), allowed)


def test_an_empty_message_crosses():
    check(message(torch.empty(0, 16, dtype=torch.uint8), Kind.POINTS))
    check(message(torch.empty(0, dtype=torch.uint8), Kind.SETUP))


def test_numbers_that_are_hard_to_spell_come_back():
    hard = torch.tensor([0.0, -0.0, 1e-45, 3.4e38, -3.4e38, 1 / 3, 3.4e38, 3.4e38])  # the sum of these overflows
    arrived = cross(message(hard.repeat(2, 2)))
    assert arrived.payload.numpy().tobytes() == hard.repeat(2, 2).numpy().tobytes()


@given(st.integers(1, 128), st.integers(1, 40), st.integers(1, 300))
def test_any_size_in_any_parts(rows, width, part):
    old, frame.PART = frame.PART, part
    try:
        payload = torch.arange(rows * width, dtype=torch.float32).view(rows, width)
        check(message(payload), AllowedMessages(RUN, "bank", frozenset(["shop"]), 128, {"shop": (width,)}))
    finally:
        frame.PART = old


def test_a_big_message_goes_in_parts_no_larger_than_one():
    sent = packets(message(torch.zeros(3 * frame.PART // 4 + 1, 4, dtype=torch.uint8), Kind.POINTS), RUN)
    assert [len(packet.payload) for packet in sent] == [frame.PART] * 3 + [4]
    assert [packet.part for packet in sent] == [0, 1, 2, 3] and {packet.frame.tensor.parts for packet in sent} == {4}


def test_what_is_sent_does_not_change_with_the_tensor_it_was_made_of():
    sent = torch.ones(4, 16)
    (packet,) = packets(message(sent), RUN)
    data = packet.to_bytes()
    sent.zero_()
    assert FrameReader(ALLOWED).add(Packet.from_bytes(data)).payload.equal(torch.ones(4, 16))


def test_what_arrives_can_be_written_to():
    arrived = cross(message(torch.ones(4, 16)))
    arrived.payload.add_(1)
    assert arrived.payload.equal(torch.full((4, 16), 2.0))


def test_transposed_and_strided_tensors_cross_as_what_they_say():
    for payload in (torch.randn(16, 5).T, torch.randn(5, 32)[:, ::2], torch.randn(5, 16).requires_grad_()):
        assert torch.equal(cross(message(payload)).payload, payload)


def part(**changed):
    """A good first part, with something changed."""
    return change(packets(message(torch.ones(4, 16)), RUN)[0], **changed)


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"run": b"\x02" * 32}, "of this run"),
        ({"run": b""}, "of this run"),
        ({"sender": "rival"}, "another sender's"),
        ({"sender": "bank"}, "another sender's"),
        *[({name: number}, "known kind, phase and type") for name in ("kind", "phase", "type") for number in (0, 99)],
        ({"spelling": 3}, "spelling"),
        ({"spelling": 1, "type": 2}, "spelling"),  # halves are of float32 only
        ({"spelling": 2, "type": 3}, "spelling"),
        ({"shape": [4, 17]}, "as the manifest says"),
        ({"shape": [4, 4, 4]}, "as the manifest says"),
        ({"shape": [64]}, "as the manifest says"),
        ({"shape": []}, "as the manifest says"),
        ({"shape": [0, 16]}, "as the manifest says"),
        ({"shape": [129, 16]}, "as the manifest says"),
        ({"type": 4}, "as the manifest says"),  # an embedding of bytes
        ({"kind": NUMBER[Kind.SHARE]}, "as the manifest says"),
        ({"kind": NUMBER[Kind.SETUP]}, "as the manifest says"),
        ({"kind": NUMBER[Kind.CIPHER], "type": 4, "shape": [4, 4, 16]}, "as the manifest says"),
        ({"shape": [1] * 7}, "at most 256 MiB"),
        ({"shape": [2**32 - 1] * 6}, "at most 256 MiB"),
        ({"kind": NUMBER[Kind.SETUP], "type": 4, "shape": [0, 2**32 - 1]}, "at most 64 MiB"),
        ({"part": 1}, "first part"),
        ({"parts": 2}, "first part"),
        ({"parts": 0}, "first part"),
        ({"payload": b""}, "256 bytes"),
        ({"payload": b"\0" * 255}, "256 bytes"),
        ({"payload": b"\0" * 257}, "256 bytes"),
    ],
)
@pytest.mark.parametrize("before", [0, 1])
def test_what_the_manifest_does_not_allow_is_refused(changed, says, before):
    decoder = FrameReader(ALLOWED)
    for _ in range(before):  # a header like the last one is not checked again; any other is
        assert decoder.add(part()) is not None
    with pytest.raises(ProtocolError, match=says):
        decoder.add(part(**changed))


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_numbers_that_are_not_finite_are_refused(bad, dtype):
    payload = torch.ones(4, 16, dtype=dtype)
    payload[2, 3] = bad
    with pytest.raises(ProtocolError, match="finite"):
        cross(message(payload))


def test_infinities_that_cancel_and_halves_that_overflow_are_refused():
    payload = torch.ones(4, 16)
    payload[0, 0], payload[0, 1] = float("inf"), float("-inf")
    with pytest.raises(ProtocolError, match="finite"):
        cross(message(payload))
    with pytest.raises(ProtocolError, match="finite"):
        cross(message(torch.full((4, 16), 70_000.0), encoding=Encoding.HALF))


@pytest.mark.parametrize("kind", list(CAPS), ids=lambda kind: kind.value)
def test_over_the_cap_is_refused_before_anything_is_allocated(kind):
    big = {Kind.EMBEDDING: 1, Kind.GRADIENT: 1, Kind.SHARE: 2}.get(kind, 4)
    size = CAPS[kind] // (1, 4, 8, 8, 1)[big] + 1
    first = part(kind=NUMBER[kind], type=big, shape=[1, size], parts=-(-size // frame.PART))
    tracemalloc.start()
    with pytest.raises(ProtocolError, match="at most"):
        FrameReader(ALLOWED).add(first)
    assert tracemalloc.get_traced_memory()[1] < 100_000
    tracemalloc.stop()


def test_a_promise_of_parts_reserves_no_memory():
    size = CAPS[Kind.POINTS]
    first = part(kind=NUMBER[Kind.POINTS], type=4, shape=[size], parts=size // frame.PART, payload=bytes(frame.PART))
    decoder = FrameReader(ALLOWED)
    tracemalloc.start()
    assert decoder.add(first) is None
    assert tracemalloc.get_traced_memory()[1] < 3 * frame.PART
    tracemalloc.stop()


@pytest.mark.parametrize(
    "changed",
    [
        {"part": 2},
        {"part": 0},
        {"step": 8},
        {"receiver": "rival"},
        {"sender": "rival"},
        {"run": b"\x02" * 32},
        {"kind": NUMBER[Kind.GRADIENT]},
        {"phase": NUMBER[Phase.PREDICT]},
        {"parts": 4},
        {"spelling": 1},
        {"payload": b"x"},
        {"shape": [16, 4]},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_parts_out_of_order_or_of_another_message_are_refused(monkeypatch, changed):
    monkeypatch.setattr(frame, "PART", 100)
    parts = packets(message(torch.ones(4, 16)), RUN)
    assert len(parts) == 3
    decoder = FrameReader(ALLOWED)
    assert decoder.add(parts[0]) is None
    with pytest.raises(ProtocolError):
        decoder.add(change(parts[1], **changed))


def test_every_kind_that_crosses_has_a_number_and_a_cap():
    elsewhere = {Kind.SUM, Kind.WEIGHTS, Kind.UPDATE}  # a note to oneself; and what Flower carries
    assert set(CAPS) == set(KINDS.values()) == set(Kind) - elsewhere
    assert set(PHASES.values()) == set(Phase)


def test_a_signed_statement_covers_everything_that_a_message_says():
    original = part()
    for changed in (
        {"run": b"\x03" * 32},
        {"sender": "x"},
        {"receiver": "x"},
        {"step": 8},
        {"phase": 3},
        {"kind": 3},
        {"type": 2},
        {"spelling": 1},
        {"shape": [16, 4]},
    ):
        assert statement(part(**changed)) != statement(original)
    assert statement(part(payload=b"other")) != statement(original)


def packed(header, payload=b"", size=None):
    return HEAD.pack(VERSION, 0, 0, 0, 0, 0, len(header) if size is None else size) + header + payload


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "a packet"),
        (b"\1\0\0", "a packet"),
        (bytes(HEAD.size - 1), "a packet"),
        (bytes(HEAD.size + HEADER_LIMIT + frame.PART + 1), "a packet"),
        (packed(b"", size=1), "a header of at most"),
        (packed(b"", size=(1 << 32) - 1), "a header of at most"),
        (packed(bytes(HEADER_LIMIT + 1)), "a header of at most"),
        (packed(b"\xff" * 9), "in protobuf"),
        (packed(b"", b"x"), "nothing after a header"),
        (packed(schema.Frame(note=schema.Note(topic="state", text="{}")).SerializeToString(), b"x"), "nothing after"),
    ],
)
def test_a_packet_is_refused_by_its_lengths(data, says):
    tracemalloc.start()
    with pytest.raises(ProtocolError, match=says):
        _ = Packet.from_bytes(data).frame
    assert tracemalloc.get_traced_memory()[1] < 100_000
    tracemalloc.stop()


def test_the_largest_note_crosses_and_a_larger_one_is_not_even_made():
    most = HEADER_LIMIT - len(note("state", "").header) - 8
    assert Packet.from_bytes(note("state", "x" * most).to_bytes()).frame.note.text == "x" * most
    with pytest.raises(ProtocolError, match="at most 65536 bytes"):
        note("state", "x" * HEADER_LIMIT).to_bytes()
