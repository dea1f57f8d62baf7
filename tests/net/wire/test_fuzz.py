"""Whatever a peer sends, only ProtocolError comes out, and no more memory than it deserves.

tests/long/fuzz.py (`python -m tests.long.fuzz`) feeds the same target a million frames.
"""

import json
import random
import tracemalloc

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

import tests.net  # noqa: F401  so that cutlayer.net is imported before grpc
from cutlayer.errors import ProtocolError
from cutlayer.message import Batch, Kind, Message, Phase
from cutlayer.net.peers.differences import differences
from cutlayer.net.peers.events import MessageReceived, NoteReceived
from cutlayer.net.peers.handshake import Hello, Welcome, opening_packet, read_opening
from cutlayer.net.peers.mailbox import Mailbox
from cutlayer.net.wire import frame, schema
from cutlayer.net.wire.frame import AllowedMessages, FrameReader
from cutlayer.net.wire.packet import VERSION, Packet, note
from tests.helpers import fuzz_corpus, fuzz_mutations
from tests.helpers.changes import change
from tests.helpers.fuzz_mutations import mutate
from tests.helpers.fuzz_target import SPARE, Target

HELLO = Hello("shop", "0" * 32, "1" * 32, 3, "{}", "2" * 32)


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    return Target(fuzz_corpus.make_keys(tmp_path_factory.mktemp("fuzz")))


@pytest.fixture(scope="module")
def corpus(target):
    return fuzz_corpus.corpus(target.keys)


def check(target, data):
    """Feed an input, traced."""
    tracemalloc.start()
    try:
        target.feed(data)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 64 * len(data) + SPARE


def test_the_corpus_is_valid(target, corpus):
    for data in corpus:
        before = target.tally.malformed
        target.feed(data)
        # a key without a signature is the label party's to hand on, and `refused` is for the dialer alone
        assert target.tally.malformed == before or b"refused" in data
    assert len(corpus) > 90


@settings(max_examples=1500)
@given(seed=st.integers(0, 2**32))
def test_mutations_of_valid_frames(target, corpus, seed):
    rng = random.Random(seed)
    check(target, mutate(rng.choice(corpus), rng, corpus))


NUMBERS = st.sampled_from(fuzz_mutations.NUMBERS)
LARGE = st.sampled_from(fuzz_mutations.LARGE)
NAMES = st.sampled_from(["bank", "shop", "cafe", "", "x" * 300])
TENSORS = st.builds(
    schema.Tensor,
    run=st.sampled_from([fuzz_corpus.RUN, fuzz_corpus.RUN, fuzz_corpus.RUN, b"", bytes(32)]),
    sender=NAMES,
    receiver=NAMES,
    phase=st.integers(-1, 5),
    kind=st.integers(0, 8),
    type=st.integers(0, 5),
    spelling=st.integers(0, 4),
    shape=st.lists(NUMBERS, max_size=8),
    parts=st.sampled_from([1, 1, 1, 2, 0, 1 << 31]),
    certificate=st.binary(max_size=20),
    signature=st.binary(max_size=20),
)
PAYLOADS = st.one_of(st.binary(max_size=200), st.sampled_from([b"", bytes(32), bytes(64), b"\xff" * 64]))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | st.just("0" * 32),
    lambda inside: st.lists(inside, max_size=4) | st.dictionaries(st.text(max_size=8), inside, max_size=4),
    max_leaves=10,
)
TEXTS = st.one_of(st.text(alphabet=st.characters(codec="utf-8"), max_size=200), st.builds(json.dumps, VALUES))
NOTES = st.builds(
    schema.Note, topic=st.sampled_from(["hello", "welcome", "refused", "state", "", "x" * 999]), text=TEXTS
)


FRAMES = st.builds(schema.Frame, note=NOTES) | st.builds(schema.Frame, tensor=TENSORS)
PACKETS = st.builds(
    Packet,
    header=FRAMES.map(schema.Frame.SerializeToString),
    payload=PAYLOADS,
    part=st.sampled_from([0, 0, 0, 1, 5]),
    version=st.sampled_from([VERSION] * 3 + [0, VERSION + 1, (1 << 32) - 1]),
    **dict.fromkeys(("step", "generation", "number", "seen"), LARGE),
)


@settings(max_examples=1500)
@given(packets=st.lists(PACKETS, min_size=1, max_size=3))
def test_packets_of_any_content(target, packets):
    check(target, fuzz_corpus.join([packet.to_bytes() for packet in packets]))


@settings(max_examples=500)
@given(data=st.binary(max_size=500))
def test_any_bytes(target, data):
    check(target, data)


@settings(max_examples=200)
@given(
    facts=st.fixed_dictionaries(
        {}, optional=dict.fromkeys(("name", "incarnation", "knows", "seen", "manifest", "nonce", "more"), VALUES)
    )
)
@example(facts={"nonce": "\ud800" * 32})
@example(facts={"nonce": ""})
@example(facts={"name": "shop\n2026 everything is fine"})
@example(facts={"seen": True})
@example(facts={"seen": -1})
@example(facts={"incarnation": "0" * 100_000})
@example(facts={"incarnation": "0" * 31 + "\n"})
def test_a_hello_has_the_form_that_we_make_ourselves(facts):
    ours = {"name": "shop", "incarnation": "0" * 32, "knows": "", "seen": 3, "manifest": "{}", "nonce": "2" * 32}
    try:
        hello = read_opening(note("hello", json.dumps({**ours, **facts})), Hello)
    except ProtocolError:
        assert facts
        return
    assert hello.name.isprintable() and len(hello.name) <= 32 and 0 <= hello.seen < 1 << 64
    assert {len(hello.incarnation), len(hello.nonce)} == {32} and len(hello.knows) in (0, 32)


def test_openings_are_read_as_they_were_written():
    assert read_opening(opening_packet(HELLO), Hello) == HELLO
    welcome = Welcome("1" * 32, True, 3, "certificate", "00")
    assert read_opening(opening_packet(welcome), Welcome) == welcome


@settings(max_examples=100)
@given(theirs=st.dictionaries(st.text(max_size=8), VALUES, max_size=80))
def test_differences_are_few_short_printable_lines(theirs):
    lines = differences({"a": 1, "b": {"c": 2}}, theirs, "shop")
    assert len(lines) <= 51 and all(line.isprintable() and len(line) < 1500 for line in lines)


def decoder(**changes):
    settings = {"run": b"run", "receiver": "bank", "senders": frozenset(["shop"]), "rows": 8, "shape": {}}
    return FrameReader(AllowedMessages(**{**settings, **changes}))


def tensor(**changes):
    message = Message(Batch(3, Phase.TRAIN, torch.arange(0)), "shop", "bank", Kind.EMBEDDING, torch.ones(8, 4))
    (packet,) = frame.packets(message, b"run")
    return change(packet, **changes)


HUGE = (1 << 32) - 1


@pytest.mark.parametrize(
    "changes",
    [
        {"run": b"another"},
        {"sender": "cafe"},
        {"kind": 0},
        {"kind": 7},
        {"phase": 0},
        {"phase": 9},
        {"type": 0},
        {"type": 9},
        {"spelling": 7},
        {"type": 3, "spelling": 1},  # whole numbers have no halves
        {"type": 4},  # embeddings are no bytes
        {"shape": ()},
        {"shape": (9, 4)},  # more rows than in a batch
        {"shape": (8, 5)},
        {"shape": (8, 4, 1, 1, 1, 1, 1)},
        {"shape": (8, HUGE)},
        {"shape": (8, HUGE, HUGE, HUGE, HUGE, HUGE)},
        {"shape": (1, 0, HUGE, HUGE, HUGE), "payload": b""},  # no numbers, and no stride that PyTorch could hold
        {"shape": (0, 4), "payload": b""},
        {"part": 1},
        {"parts": 0},
        {"parts": 2},
        {"payload": bytes(127)},
        {"payload": bytes(129)},
        {"payload": b"\x00\x00\xc0\x7f" * 32},  # not a number
        {"payload": b"\x00\x00\x80\xff" * 32},  # minus infinity
    ],
)
def test_what_the_manifest_does_not_allow(changes):
    with pytest.raises(ProtocolError):
        decoder().add(tensor(**changes))


@pytest.mark.parametrize("kind", frame.CAPS)
def test_a_peers_word_alone_reserves_nothing(kind):
    """The largest message that is allowed is begun: what is kept is the part that came."""
    cap, part = frame.CAPS[kind], bytes(frame.PART)
    shape = (8, cap // 32) if kind in (Kind.EMBEDDING, Kind.GRADIENT) else (8, cap // 64)
    number = frame.TYPES[torch.float32 if kind in (Kind.EMBEDDING, Kind.GRADIENT) else torch.int64]
    first = tensor(kind=frame.NUMBER[kind], type=number, shape=shape, parts=cap // frame.PART, payload=part)
    begun = decoder()
    tracemalloc.start()
    try:
        assert begun.add(first) is None
        assert tracemalloc.get_traced_memory()[1] < 2 * frame.PART
    finally:
        tracemalloc.stop()
    for dimensions in ((9, shape[1]), (8, 2 * shape[1])):
        with pytest.raises(ProtocolError):
            decoder(rows=9).add(tensor(kind=frame.NUMBER[kind], type=number, shape=dimensions, payload=part))


def test_parts_come_in_order_and_of_one_message():
    message = Message(
        Batch(3, Phase.TRAIN, torch.arange(0)), "shop", "bank", Kind.SHARE, torch.zeros(3, 1 << 16, dtype=torch.int64)
    )
    parts = frame.packets(message, b"run")
    assert len(parts) == 2
    whole = decoder()
    assert whole.add(parts[0]) is None and whole.add(parts[1]).payload.equal(message.payload)
    for wrong in ([1], [0, 0]):
        with pytest.raises(ProtocolError):
            broken = decoder()
            for number in wrong:
                broken.add(parts[number])
    begun = decoder()
    begun.add(parts[0])
    with pytest.raises(ProtocolError):
        begun.add(parts[1]._replace(step=4))


def test_a_signature_covers_all_that_the_receiver_goes_by(target):
    """The label party hands a key on; the receiver notices any change."""
    (mailbox, peer), keys = target.mailboxes[1], target.keys["shop"]
    message = Message(
        Batch(0, Phase.ALIGN, torch.arange(0)), "shop", "cafe", Kind.SETUP, torch.arange(32, dtype=torch.uint8)
    )

    def deliver(**changes):
        (packet,) = frame.packets(message, fuzz_corpus.RUN)
        packet = change(packet, certificate=keys.shown, signature=keys.sign(frame.statement(packet)))
        mailbox._deliver(peer, change(packet, **changes))

    deliver()
    assert isinstance(mailbox.events.get(), MessageReceived)
    forged = [
        {"payload": bytes(32)},
        {"step": 1},
        {"phase": 2},
        {"kind": 4},
        {"signature": b""},
        {"certificate": b""},
        {"certificate": target.keys["bank"].shown},
    ]
    for changes in forged:
        with pytest.raises(ProtocolError):
            deliver(**changes)
    assert mailbox.events.empty()


@pytest.mark.parametrize("text", ["", "null", "[]", "[" * 100_000, '{"a":' * 100_000, "1" * 5000, "{", "\x00"])
def test_notes_that_are_no_facts(text):
    mailbox = Mailbox("bank", "bank", b"run", ("shop",), ("bank", "shop"), None)
    with pytest.raises(ProtocolError):
        mailbox._deliver("shop", note("state", text))
    mailbox._deliver("shop", note("state", '{"steps": []}'))
    assert isinstance(mailbox.events.get(), NoteReceived)
