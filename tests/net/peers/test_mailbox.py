"""Post and Carrier, without a network: two or three parties whose frames are carried by hand."""

import json
from types import SimpleNamespace

import pytest
import torch

from cutlayer.errors import DataError, Diverged, ProtocolError, RunError
from cutlayer.message import Batch, Kind, Message, Phase
from cutlayer.net.party.member import Member
from cutlayer.net.party.own_data import TooFew
from cutlayer.net.peers.carrier import Carrier, Regroup, Stopped
from cutlayer.net.peers.dial import _lines
from cutlayer.net.peers.mailbox import Broke, Came, Gone, Joined, Post, Said
from cutlayer.net.predict.label_side import Asking
from cutlayer.net.wire import frame
from cutlayer.net.wire.frame import packets
from cutlayer.net.wire.packet import Packet, note

RUN = b"\x01" * 32
PARTIES = ("bank", "shop", "port")


def post(name, parties=PARTIES):
    peers = tuple(p for p in parties if p != "bank") if name == "bank" else ("bank",)
    made = Post(name, "bank", RUN, peers, parties, None)
    made.streams = {peer: made.links[peer].attach(0) for peer in peers}
    made.allow(dict.fromkeys(parties, (4,)), rows=64)
    return made


def carrier(name, parties=PARTIES, patience=60.0):
    made = Carrier(post(name, parties), patience=patience, log=None, ledger=None)
    made.said = []
    made.log = made.said.append
    return made


def message(sender, receiver, kind=Kind.EMBEDDING, payload=None, step=3, phase=Phase.TRAIN):
    payload = torch.ones(2, 4) if payload is None else payload
    return Message(Batch(step, phase, torch.arange(2)), sender, receiver, kind, payload)


def arrive(to, peer, generation, packet):
    """A packet from a peer, with the next number."""
    link = to.links[peer]
    link.receive(to.streams[peer], packet._replace(number=link.seen + 1, generation=generation))


def kept(of, peer):
    """The frames that a post keeps for a peer."""
    return [Packet.from_bytes(data).frame for _, data in of.links[peer]._kept]


def say(to, peer, topic, text="{}", generation=None):
    generation = to.generation if generation is None else generation
    arrive(to, peer, generation, note(topic, text))


def events(of):
    found = []
    while not of.events.empty():
        found.append(of.events.get())
    return found


def test_what_is_handed_on_may_come_between_the_parts_of_another_message(monkeypatch):
    monkeypatch.setattr(frame, "PART", 10)
    shop = post("shop")
    points = packets(message("bank", "shop", Kind.POINTS, torch.zeros(35, dtype=torch.uint8)), RUN)
    key = packets(message("port", "shop", Kind.SETUP, torch.ones(8, dtype=torch.uint8)), RUN)[0]
    assert len(points) == 4
    for packet in (points[0], key, *points[1:]):
        arrive(shop, "bank", 1, packet)
    came = [event.message for event in events(shop)]
    assert [(one.form.sender, one.form.kind) for one in came] == [("port", Kind.SETUP), ("bank", Kind.POINTS)]


def test_the_label_party_hands_on_keys_of_this_meeting_and_nothing_else():
    bank = post("bank")
    key = packets(message("shop", "port", Kind.SETUP, torch.ones(8, dtype=torch.uint8)), RUN)[0]
    arrive(bank, "shop", bank.generation, key)
    assert [one.tensor.sender for one in kept(bank, "port")] == ["shop"] and not events(bank)
    arrive(bank, "shop", bank.generation - 1, key)  # of an earlier meeting
    assert len(bank.links["port"]._kept) == 1
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
        shop = post("shop")
        arrive(shop, "bank", 1, key)  # a feature party hands nothing on


def test_a_header_that_was_checked_is_checked_again_when_other_shapes_are_allowed():
    bank = post("bank")
    (sent,) = packets(message("shop", "bank"), RUN)
    for _ in range(2):
        arrive(bank, "shop", bank.generation, sent)
    bank.allow({"shop": (5,)}, rows=64)
    with pytest.raises(ProtocolError, match="as the manifest says"):
        arrive(bank, "shop", bank.generation, sent)


def test_a_packet_that_says_nothing_is_refused():
    with pytest.raises(ProtocolError, match="to another party"):
        arrive(post("shop"), "bank", 1, Packet())


@pytest.mark.parametrize("text", ["", "[]", "3", "{", "[" * 100_000])
def test_a_note_that_is_no_json_object_is_refused(text):
    with pytest.raises(ProtocolError, match="from bank"):
        say(post("shop"), "bank", "facts", text)


def test_meetings_of_two_processes_never_have_the_same_number():
    assert len({post("bank").generation for _ in range(20)}) == 20
    assert post("shop").generation == 0


def test_what_the_label_partys_last_process_sent_is_forgotten_when_a_new_one_comes():
    shop = carrier("shop")
    shop.begin(90)
    sent = message("bank", "shop", Kind.GRADIENT)
    arrive(shop.post, "bank", 95, packets(sent, RUN)[0])
    say(shop.post, "bank", "regroup", generation=95)
    with pytest.raises(Regroup):
        shop.either(("facts",), "bank")
    shop.post.renew("bank")
    shop.post.streams["bank"] = shop.post.links["bank"].attach(0)
    shop.post.tell("bank", "saved")  # this thread has not heard of the new process: to the old one
    shop.post.events.put(Joined("bank", anew=True))
    with pytest.raises(Regroup):
        shop.either(("facts",), "bank")
    assert shop.post.generation == 0 and not shop._early and not shop._notes
    assert not kept(shop.post, "bank")
    shop.post.tell("bank", "state")
    assert len(shop.post.links["bank"]._kept) == 1


def test_the_label_party_takes_nothing_of_another_meeting():
    bank = carrier("bank")
    bank.begin(50)
    for generation in (49, 51, 10**12):
        arrive(bank.post, "shop", generation, packets(message("shop", "bank"), RUN)[0])
        say(bank.post, "shop", "state", generation=generation)
    say(bank.post, "shop", "state", '{"mine": 1}', 50)
    assert bank.note("state", ["shop"])["shop"].facts == {"mine": 1}
    assert not bank._early and not bank._notes


def test_early_messages_wait_for_their_step_and_late_ones_are_refused():
    bank = carrier("bank")
    bank.begin(50)
    for step in (5, 4):
        arrive(bank.post, "shop", 50, packets(message("shop", "bank", step=step), RUN)[0])
    for step in (4, 5):
        found = bank._next_message(Batch(step, Phase.TRAIN, torch.arange(2)))
        assert found.batch.step == step
    arrive(bank.post, "shop", 50, packets(message("shop", "bank", step=4), RUN)[0])
    with pytest.raises(ProtocolError, match="of step 6 from shop, got 4"):
        bank._next_message(Batch(6, Phase.TRAIN, torch.arange(2)))
    arrive(bank.post, "shop", 50, packets(message("shop", "bank", step=6, phase=Phase.PREDICT), RUN)[0])
    with pytest.raises(ProtocolError, match="another phase"):
        bank._next_message(Batch(6, Phase.TRAIN, torch.arange(2)))


def test_who_is_missing_is_said_at_once_and_to_those_who_cannot_see_it():
    bank = carrier("bank")
    for event in (Joined("shop", False), Joined("port", False), Gone("port", "lost"), Joined("port", False)):
        bank.post.put(event)
        bank._event("for a test")
    assert bank.said == ["port is gone (lost); waiting for it, at most 60 seconds.", "port is here."]
    told = [one.note.text for one in kept(bank.post, "shop") if one.note.topic == "missing"]
    assert told == ['{"who": ["port"]}', '{"who": []}']
    shop = carrier("shop")
    for text in (*told, '{"who": ["rival", 3]}', '{"who": 3}', "{}"):
        say(shop.post, "bank", "missing", text)
        assert shop._event("for a test") is None
    assert shop.said == ["bank waits for port.", *["bank says that all are here."] * 4]


def test_who_is_missing_is_said_while_the_partys_own_thread_is_busy():
    bank, shop = carrier("bank"), carrier("shop")
    bank.post.put(Gone("port", "lost"))
    assert bank.said == ["port is gone (lost); waiting for it, at most 60 seconds."]
    assert [one.note.text for one in kept(bank.post, "shop")] == ['{"who": ["port"]}']
    say(shop.post, "bank", "missing", '{"who": ["port"]}')
    assert shop.said == ["bank waits for port."]


def test_patience_ends_even_while_others_talk(monkeypatch):
    bank = carrier("bank", patience=0.0)
    bank.post.events.put(Gone("port", "lost"))
    bank._event("for a test")
    with pytest.raises(RunError, match="port has been missing for 0 seconds"):
        bank._event("for a test")


def test_whoever_came_back_while_we_were_busy_is_not_given_up():
    bank = carrier("bank", patience=0.0)
    bank.post.events.put(Gone("port", "lost"))
    bank._event("for a test")
    bank.post.events.put(Joined("port", False))
    bank._event("for a test")
    assert bank.said[-1] == "port is here."


def test_a_peer_that_ends_the_run_or_breaks_the_protocol_ends_it_here_too():
    shop = carrier("shop")
    say(shop.post, "bank", "stopped", '{"why": "an error"}', generation=0)
    with pytest.raises(Stopped, match=r"^bank stopped on an error$"):
        shop._event("for a test")
    say(shop.post, "bank", "stopped", '{"who": "port", "why": "an error"}', generation=0)
    with pytest.raises(Stopped, match=r"^port stopped on an error$"):
        shop._event("for a test")
    say(shop.post, "bank", "stopped", '{"who": ["nobody"], "why": "an error"}', generation=0)
    with pytest.raises(Stopped, match=r"^bank stopped on an error$"):
        shop._event("for a test")
    shop.post.events.put(Broke("bank", ProtocolError("odd")))
    with pytest.raises(ProtocolError, match="odd"):
        shop._event("for a test")


@pytest.mark.parametrize(
    ("name", "error", "told"),
    [
        ("bank", Diverged("away"), 1),
        ("bank", RunError("missing"), 0),
        ("bank", TooFew(3), 1),
        ("shop", Stopped("bank", "an error"), 0),
        ("shop", DataError("the column income"), 1),
    ],
)
def test_who_stops_says_so_without_a_word_of_data_and_who_misses_a_peer_lets_the_others_wait(
    monkeypatch, name, error, told
):
    here, peer = carrier(name, ("bank", "shop")), "shop" if name == "bank" else "bank"
    monkeypatch.setattr(here.post, "drain", lambda peers, timeout: None)
    Member._say_why(SimpleNamespace(carrier=here, file=SimpleNamespace(is_label_party=name == "bank")), error)
    why = f"an error of its own ({type(error).__name__}): ask {name} what it said."
    assert [json.loads(one.note.text) for one in kept(here.post, peer)] == [{"who": name, "why": why}] * told


def test_nobody_but_the_label_party_can_say_that_another_stopped():
    bank = carrier("bank")
    say(bank.post, "shop", "stopped", '{"who": "port", "why": "an error"}')
    with pytest.raises(Stopped, match=r"^shop stopped on an error$"):
        bank._event("for a test")


@pytest.mark.parametrize("why", ["\x1b[2Jgone\ncutlayer: all is well", "x" * 10_000, ["\r"], None])
def test_a_peers_words_are_one_short_line_that_a_terminal_only_prints(why):
    bank = carrier("bank")
    say(bank.post, "shop", "stopped", json.dumps({"why": why}))
    with pytest.raises(Stopped) as raised:
        bank._event("for a test")
    assert str(raised.value).isprintable() and len(str(raised.value)) < 600
    assert all(line.isprintable() and len(line) <= 500 for line in _lines(json.dumps({"differences": [why, why]})))


def test_the_label_party_tells_the_others_who_stopped(monkeypatch):
    bank = carrier("bank", ("bank", "shop", "port"))
    monkeypatch.setattr(bank.post, "drain", lambda peers, timeout: None)
    Member._say_why(SimpleNamespace(carrier=bank, file=SimpleNamespace(is_label_party=True)), Stopped("shop", "it"))
    said = {"who": "shop", "why": "an error of its own: ask shop what it said."}  # in the label party's words
    assert [json.loads(one.note.text) for one in kept(bank.post, "port")] == [said]
    assert kept(bank.post, "shop") == []


def test_where_all_have_too_few_rows_in_common_the_label_party_hangs_up_first():
    shop = carrier("shop", ("bank", "shop"))
    shop.post.events.put(Joined("bank", False))
    say(shop.post, "bank", "stopped", '{"why": "too few rows"}', generation=0)
    shop.post.put(Gone("bank", "it hung up"))
    Member._say_why(SimpleNamespace(carrier=shop, file=SimpleNamespace(is_label_party=False)), TooFew(3))
    assert kept(shop.post, "bank") == [] and shop.said == []
    assert isinstance(shop.post.events.get(timeout=0), Gone)  # it waited for the word, and no longer


@pytest.mark.parametrize(
    "end",
    [lambda bank: Asking.finish(SimpleNamespace(carrier=bank, post=bank.post)), lambda bank: bank.stop(TooFew(3))],
)
def test_whoever_was_told_of_the_end_may_go_without_an_alarm(monkeypatch, end):
    bank = carrier("bank", ("bank", "shop"))
    monkeypatch.setattr(bank.post, "drain", lambda peers, timeout: bank.post.put(Gone("shop", "it hung up")))
    end(bank)
    assert bank.said == []


def test_whoever_stopped_may_go_without_an_alarm_and_its_next_process_may_not():
    shop = carrier("shop")
    for alarms in (0, 1):
        shop.post.put(Joined("bank", anew=True))
        if not alarms:
            say(shop.post, "bank", "stopped", '{"why": "an error"}', generation=0)
        shop.post.put(Gone("bank", "it hung up"))
        assert len([line for line in shop.said if "is gone" in line]) == alarms


def test_the_end_is_said_to_every_new_process_until_all_have_said_goodbye():
    bank = carrier("bank", ("bank", "shop"))
    bank.post.events.put(Joined("shop", False))
    say_bye = iter([lambda: None, lambda: say(bank.post, "shop", "bye")])

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
                bank.post.renew("shop")
                bank.post.streams["shop"] = bank.post.links["shop"].attach(0)
                self.put(Joined("shop", True))
            elif self.asked == 3:
                next(say_bye)()
                next(say_bye)()
            return self.queue.get(timeout=timeout)

    bank.post.events = Events(bank.post.events)
    bank.part(["shop"])
    assert [one.note.topic for one in kept(bank.post, "shop")] == ["done", "bye"]
    bank.post.put(Gone("shop", "it closed the connection"))
    bank._event("for a test")
    assert not any("is gone" in line for line in bank.said), "whoever said goodbye may go"


def test_events_are_what_they_say():
    bank = post("bank")
    say(bank, "shop", "state", '{"a": 1}')
    arrive(bank, "shop", bank.generation, packets(message("shop", "bank"), RUN)[0])
    said, came = events(bank)
    assert isinstance(said, Said) and said.facts == {"a": 1} and isinstance(came, Came)
