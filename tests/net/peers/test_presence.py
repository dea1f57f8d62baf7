"""Presence: a missing party is reported to all at once, and waited for as long as the user allows."""

import math

import pytest

from cutlayer.errors import RunError
from cutlayer.net.peers.events import PeerJoined, PeerLost
from cutlayer.net.peers.presence import Patience
from tests.helpers.mailboxes import make_inbox, note_arrives, unconfirmed


def test_waiting_for_ever_has_no_limit_to_mention():
    assert Patience(600.0, "").limit == ", at most 600 seconds" and Patience(math.inf, "").limit == ""


def test_who_is_missing_is_said_at_once_and_to_those_who_cannot_see_it():
    bank = make_inbox("bank")
    for event in (
        PeerJoined("shop", False),
        PeerJoined("port", False),
        PeerLost("port", "lost"),
        PeerJoined("port", False),
    ):
        bank.mailbox.put(event)
        bank.next_event("for a test")
    assert bank.lines == ["port is gone (lost); waiting for it, at most 60 seconds.", "port is here."]
    notes = [frame.note.text for frame in unconfirmed(bank.mailbox, "shop") if frame.note.topic == "missing"]
    assert notes == ['{"who": ["port"]}', '{"who": []}']
    shop = make_inbox("shop")
    for text in (*notes, '{"who": ["rival", 3]}', '{"who": 3}', "{}"):
        note_arrives(shop.mailbox, "bank", "missing", text)
        assert shop.next_event("for a test") is None
    assert shop.lines == ["bank waits for port.", *["bank says that all are here."] * 4]


def test_who_is_missing_is_said_while_the_partys_own_thread_is_busy():
    bank, shop = make_inbox("bank"), make_inbox("shop")
    bank.mailbox.put(PeerLost("port", "lost"))
    assert bank.lines == ["port is gone (lost); waiting for it, at most 60 seconds."]
    assert [frame.note.text for frame in unconfirmed(bank.mailbox, "shop")] == ['{"who": ["port"]}']
    note_arrives(shop.mailbox, "bank", "missing", '{"who": ["port"]}')
    assert shop.lines == ["bank waits for port."]


def test_patience_ends_even_while_others_talk(monkeypatch):
    bank = make_inbox("bank", patience=0.0)
    bank.mailbox.events.put(PeerLost("port", "lost"))
    bank.next_event("for a test")
    with pytest.raises(RunError, match="port has been missing for 0 seconds"):
        bank.next_event("for a test")


def test_whoever_came_back_while_we_were_busy_is_not_given_up():
    bank = make_inbox("bank", patience=0.0)
    bank.mailbox.events.put(PeerLost("port", "lost"))
    bank.next_event("for a test")
    bank.mailbox.events.put(PeerJoined("port", False))
    bank.next_event("for a test")
    assert bank.lines[-1] == "port is here."


def test_whoever_stopped_may_go_without_an_alarm_and_its_next_process_may_not():
    shop = make_inbox("shop")
    for alarms in (0, 1):
        shop.mailbox.put(PeerJoined("bank", new_process=True))
        if not alarms:
            note_arrives(shop.mailbox, "bank", "stopped", '{"why": "an error"}', generation=0)
        shop.mailbox.put(PeerLost("bank", "it hung up"))
        assert len([line for line in shop.lines if "is gone" in line]) == alarms
