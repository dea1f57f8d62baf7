"""A mailbox without a network: what it checks, forwards and queues."""

import pytest
import torch

from cutlayer.errors import ProtocolError
from cutlayer.message import Kind
from cutlayer.net.peers.events import MessageReceived, NoteReceived
from cutlayer.net.wire import frame
from cutlayer.net.wire.frame import packets
from cutlayer.net.wire.packet import Packet
from tests.helpers.mailboxes import RUN, arrive, make_mailbox, message, note_arrives, queued_events, unconfirmed


def test_what_is_handed_on_may_come_between_the_parts_of_another_message(monkeypatch):
    monkeypatch.setattr(frame, "PART", 10)
    shop = make_mailbox("shop")
    points = packets(message("bank", "shop", Kind.POINTS, torch.zeros(35, dtype=torch.uint8)), RUN)
    key = packets(message("port", "shop", Kind.SETUP, torch.ones(8, dtype=torch.uint8)), RUN)[0]
    assert len(points) == 4
    for packet in (points[0], key, *points[1:]):
        arrive(shop, "bank", 1, packet)
    messages = [event.message for event in queued_events(shop)]
    assert [(received.header.sender, received.header.kind) for received in messages] == [
        ("port", Kind.SETUP),
        ("bank", Kind.POINTS),
    ]


def test_the_label_party_hands_on_keys_of_this_meeting_and_nothing_else():
    bank = make_mailbox("bank")
    key = packets(message("shop", "port", Kind.SETUP, torch.ones(8, dtype=torch.uint8)), RUN)[0]
    arrive(bank, "shop", bank.generation, key)
    assert [received.tensor.sender for received in unconfirmed(bank, "port")] == ["shop"] and not queued_events(bank)
    arrive(bank, "shop", bank.generation - 1, key)  # of an earlier meeting
    assert len(bank.links["port"]._unconfirmed) == 1
    for wrong in (
        message("shop", "port"),
        message("port", "port", Kind.SETUP, torch.ones(8, dtype=torch.uint8)),
        message("shop", "rival", Kind.SETUP, torch.ones(8, dtype=torch.uint8)),
    ):
        with pytest.raises(ProtocolError, match="to another party"):
            arrive(bank, "shop", bank.generation, packets(wrong, RUN)[0])
    with pytest.raises(ProtocolError, match="another sender's"):
        arrive(bank, "shop", bank.generation, packets(message("port", "bank"), RUN)[0])
    with pytest.raises(ProtocolError, match="to another party"):
        shop = make_mailbox("shop")
        arrive(shop, "bank", 1, key)  # a feature party hands nothing on


def test_a_header_that_was_checked_is_checked_again_when_other_shapes_are_allowed():
    bank = make_mailbox("bank")
    (sent,) = packets(message("shop", "bank"), RUN)
    for _ in range(2):
        arrive(bank, "shop", bank.generation, sent)
    bank.allow({"shop": (5,)}, rows=64)
    with pytest.raises(ProtocolError, match="as the manifest says"):
        arrive(bank, "shop", bank.generation, sent)


def test_a_packet_that_says_nothing_is_refused():
    with pytest.raises(ProtocolError, match="to another party"):
        arrive(make_mailbox("shop"), "bank", 1, Packet())


@pytest.mark.parametrize("text", ["", "[]", "3", "{", "[" * 100_000])
def test_a_note_that_is_no_json_object_is_refused(text):
    with pytest.raises(ProtocolError, match="from bank"):
        note_arrives(make_mailbox("shop"), "bank", "facts", text)


def test_meetings_of_two_processes_never_have_the_same_number():
    assert len({make_mailbox("bank").generation for _ in range(20)}) == 20
    assert make_mailbox("shop").generation == 0


def test_events_are_what_they_say():
    bank = make_mailbox("bank")
    note_arrives(bank, "shop", "state", '{"a": 1}')
    arrive(bank, "shop", bank.generation, packets(message("shop", "bank"), RUN)[0])
    note, messages = queued_events(bank)
    assert isinstance(note, NoteReceived) and note.facts == {"a": 1} and isinstance(messages, MessageReceived)
