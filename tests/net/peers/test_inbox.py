"""An inbox: what a party waits for, and what it takes from whom."""

import json

import pytest
import torch

from cutlayer.errors import ProtocolError
from cutlayer.message import Batch, Kind, Phase
from cutlayer.net.peers.events import PeerFailed, PeerJoined, Regroup, Stopped
from cutlayer.net.peers.handshake import read_refusal
from cutlayer.net.wire.frame import packets
from tests.helpers.mailboxes import RUN, arrive, make_inbox, message, note_arrives, unconfirmed


def test_what_the_label_partys_last_process_sent_is_forgotten_when_a_new_one_comes():
    shop = make_inbox("shop")
    shop.begin_meeting(90)
    sent = message("bank", "shop", Kind.GRADIENT)
    arrive(shop.mailbox, "bank", 95, packets(sent, RUN)[0])
    note_arrives(shop.mailbox, "bank", "regroup", generation=95)
    with pytest.raises(Regroup):
        shop.wait_note(("facts",), "bank")
    shop.mailbox.restart_link("bank")
    shop.mailbox.streams["bank"] = shop.mailbox.links["bank"].attach(0)
    shop.mailbox.send_note("bank", "saved")  # this thread has not heard of the new process: to the old one
    shop.mailbox.events.put(PeerJoined("bank", new_process=True))
    with pytest.raises(Regroup):
        shop.wait_note(("facts",), "bank")
    assert shop.mailbox.generation == 0 and not shop._messages and not shop._notes
    assert not unconfirmed(shop.mailbox, "bank")
    shop.mailbox.send_note("bank", "state")
    assert len(shop.mailbox.links["bank"]._unconfirmed) == 1


def test_the_label_party_takes_nothing_of_another_meeting():
    bank = make_inbox("bank")
    bank.begin_meeting(50)
    for generation in (49, 51, 10**12):
        arrive(bank.mailbox, "shop", generation, packets(message("shop", "bank"), RUN)[0])
        note_arrives(bank.mailbox, "shop", "state", generation=generation)
    note_arrives(bank.mailbox, "shop", "state", '{"mine": 1}', 50)
    assert bank.wait_notes("state", ["shop"])["shop"].facts == {"mine": 1}
    assert not bank._messages and not bank._notes


def test_early_messages_wait_for_their_step_and_late_ones_are_refused():
    bank = make_inbox("bank")
    bank.begin_meeting(50)
    for step in (5, 4):
        arrive(bank.mailbox, "shop", 50, packets(message("shop", "bank", step=step), RUN)[0])
    for step in (4, 5):
        received = bank.wait_message(Batch(step, Phase.TRAIN, torch.arange(2)))
        assert received.batch.step == step
    arrive(bank.mailbox, "shop", 50, packets(message("shop", "bank", step=4), RUN)[0])
    with pytest.raises(ProtocolError, match="of step 6 from shop, got 4"):
        bank.wait_message(Batch(6, Phase.TRAIN, torch.arange(2)))
    arrive(bank.mailbox, "shop", 50, packets(message("shop", "bank", step=6, phase=Phase.PREDICT), RUN)[0])
    with pytest.raises(ProtocolError, match="another phase"):
        bank.wait_message(Batch(6, Phase.TRAIN, torch.arange(2)))


def test_a_peer_that_ends_the_run_or_breaks_the_protocol_ends_it_here_too():
    shop = make_inbox("shop")
    note_arrives(shop.mailbox, "bank", "stopped", '{"why": "an error"}', generation=0)
    with pytest.raises(Stopped, match=r"^bank stopped on an error$"):
        shop.next_event("for a test")
    note_arrives(shop.mailbox, "bank", "stopped", '{"who": "port", "why": "an error"}', generation=0)
    with pytest.raises(Stopped, match=r"^port stopped on an error$"):
        shop.next_event("for a test")
    note_arrives(shop.mailbox, "bank", "stopped", '{"who": ["nobody"], "why": "an error"}', generation=0)
    with pytest.raises(Stopped, match=r"^bank stopped on an error$"):
        shop.next_event("for a test")
    shop.mailbox.events.put(PeerFailed("bank", ProtocolError("odd")))
    with pytest.raises(ProtocolError, match="odd"):
        shop.next_event("for a test")


def test_nobody_but_the_label_party_can_say_that_another_stopped():
    bank = make_inbox("bank")
    note_arrives(bank.mailbox, "shop", "stopped", '{"who": "port", "why": "an error"}')
    with pytest.raises(Stopped, match=r"^shop stopped on an error$"):
        bank.next_event("for a test")


@pytest.mark.parametrize("why", ["\x1b[2Jgone\ncutlayer: all is well", "x" * 10_000, ["\r"], None])
def test_a_peers_words_are_one_short_line_that_a_terminal_only_prints(why):
    bank = make_inbox("bank")
    note_arrives(bank.mailbox, "shop", "stopped", json.dumps({"why": why}))
    with pytest.raises(Stopped) as raised:
        bank.next_event("for a test")
    assert str(raised.value).isprintable() and len(str(raised.value)) < 600
    assert all(
        line.isprintable() and len(line) <= 500 for line in read_refusal(json.dumps({"differences": [why, why]}))
    )
