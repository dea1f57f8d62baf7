"""How a process leaves the others: nobody leaves without a word, and nobody waits for a party that said goodbye."""

import json
from types import SimpleNamespace

import pytest

from cutlayer.net.party.own_data import TooFewRows
from cutlayer.net.peers.ending import dismiss_all, report_stop
from cutlayer.net.peers.events import PeerJoined, PeerLost, Stopped
from cutlayer.net.predict.label_side import Predictor
from tests.helpers.mailboxes import make_inbox, note_arrives, unconfirmed


@pytest.mark.parametrize(
    "end",
    [
        lambda bank: Predictor.finish(SimpleNamespace(connection=SimpleNamespace(mailbox=bank.mailbox, inbox=bank))),
        lambda bank: report_stop(bank, TooFewRows(3)),
    ],
)
def test_whoever_was_told_of_the_end_may_go_without_an_alarm(monkeypatch, end):
    bank = make_inbox("bank", ("bank", "shop"))
    monkeypatch.setattr(
        bank.mailbox, "wait_confirmed", lambda peers, timeout: bank.mailbox.put(PeerLost("shop", "it hung up"))
    )
    end(bank)
    assert bank.lines == []


def test_the_end_is_said_to_every_new_process_until_all_have_said_goodbye():
    bank = make_inbox("bank", ("bank", "shop"))
    bank.mailbox.events.put(PeerJoined("shop", False))
    say_bye = iter([lambda: None, lambda: note_arrives(bank.mailbox, "shop", "bye")])

    class Events:
        """The queue, with a new process of the shop in between."""

        def __init__(self, queue):
            self.queue, self.asked = queue, 0

        def empty(self):
            return self.queue.empty()

        def put(self, event):
            self.queue.put(event)

        def get(self, timeout):
            self.asked += 1
            if self.asked == 2:
                bank.mailbox.restart_link("shop")
                bank.mailbox.streams["shop"] = bank.mailbox.links["shop"].attach(0)
                self.put(PeerJoined("shop", True))
            elif self.asked == 3:
                next(say_bye)()
                next(say_bye)()
            return self.queue.get(timeout=timeout)

    bank.mailbox.events = Events(bank.mailbox.events)
    dismiss_all(bank, ["shop"])
    assert [frame.note.topic for frame in unconfirmed(bank.mailbox, "shop")] == ["done", "bye"]
    bank.mailbox.put(PeerLost("shop", "it closed the connection"))
    bank.next_event("for a test")
    assert not any("is gone" in line for line in bank.lines), "whoever said goodbye may go"


def test_the_label_party_tells_the_others_who_stopped(monkeypatch):
    bank = make_inbox("bank", ("bank", "shop", "port"))
    monkeypatch.setattr(bank.mailbox, "wait_confirmed", lambda peers, timeout: None)
    report_stop(bank, Stopped("shop", "it"))
    facts = {"who": "shop", "why": "an error of its own: ask shop what it said."}  # in the label party's words
    assert [json.loads(frame.note.text) for frame in unconfirmed(bank.mailbox, "port")] == [facts]
    assert unconfirmed(bank.mailbox, "shop") == []
