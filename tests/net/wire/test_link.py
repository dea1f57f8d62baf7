"""Link: every frame once and in order, whatever happens to the streams that carry it."""

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutlayer.errors import ProtocolError
from cutlayer.net.wire import link as module
from cutlayer.net.wire import packet as packets
from cutlayer.net.wire.link import Link
from cutlayer.net.wire.packet import VERSION, Packet


def note(text):
    return packets.note("test", str(text))


class End:
    """A link, what it delivered, and its side of the stream in use."""

    def __init__(self, name):
        self.got = []
        self.link = Link(name, lambda peer, packet: self.got.append(packet.frame.note.text))
        self.sent = []
        self.stream, self.line = 0, []  # packets on their way from this end

    def pump(self):
        """Put on the line what the link has to send, without waiting for more."""
        while not self.link._outbox.empty():
            self.line.append(Packet.from_bytes(next(self.source)))


class Pair:
    """Two links and the stream between them, which a test may break."""

    def __init__(self):
        self.ends = End("left"), End("right")
        self.open = False

    def attach(self):
        """What two processes do when they meet again: each says what it has seen."""
        seen = [end.link.seen for end in self.ends]
        for end, other in zip(self.ends, reversed(seen), strict=True):
            end.stream = end.link.attach(other)
            end.source, end.line = end.link.outgoing(end.stream), []
        self.open = True

    def carry(self, side, count):
        """Move frames from one end to the other."""
        end, other = self.ends[side], self.ends[1 - side]
        end.pump()
        for packet in end.line[:count]:
            other.link.receive(other.stream, packet)
        del end.line[:count]

    def finish(self):
        """Carry until nothing is left."""
        if not self.open:
            self.attach()
        for _ in range(3):
            for side in (0, 1):
                self.carry(side, 10**6)


actions = st.lists(
    st.one_of(
        st.tuples(st.just("send"), st.integers(0, 1)),
        st.tuples(st.just("carry"), st.integers(0, 1), st.integers(1, 5)),
        st.tuples(st.just("again"), st.integers(0, 1), st.integers(1, 3)),
        st.just(("break",)),
        st.just(("attach",)),
    ),
    max_size=120,
)


@given(actions)
def test_any_interleaving_delivers_each_frame_once_and_in_order(todo):
    pair = Pair()
    for what, *how in todo:
        if what == "send":
            end = pair.ends[how[0]]
            end.sent.append(str(len(end.sent)))
            end.link.send(1, note(end.sent[-1]))
        elif what == "break" and pair.open:
            for end in pair.ends:
                assert end.link.detach(end.stream)
            pair.open = False
        elif what == "attach":
            pair.attach()
        elif what == "carry" and pair.open:
            pair.carry(*how)
        elif what == "again" and pair.open:  # frames that came already come once more
            end, other = pair.ends[how[0]], pair.ends[1 - how[0]]
            for number in range(max(1, other.link.seen - how[1]), other.link.seen + 1):
                other.link.receive(other.stream, note("again")._replace(number=number))
    pair.finish()
    for end, other in (pair.ends, reversed(pair.ends)):
        assert other.got == end.sent
        assert len(end.link._unconfirmed) <= module.CONFIRM


def test_what_nobody_answers_is_confirmed_all_the_same_so_that_little_is_kept():
    pair = Pair()
    pair.attach()
    for number in range(1000):
        pair.ends[0].link.send(1, note(number))
        pair.carry(0, 1)
        pair.carry(1, 1)
        assert len(pair.ends[0].link._unconfirmed) <= module.CONFIRM
    assert len(pair.ends[1].got) == 1000 and not pair.ends[0].got


def frame(number, seen=0, version=VERSION):
    return note(number)._replace(version=version, number=number, seen=seen)


@pytest.fixture
def end():
    end = End("peer")
    end.stream = end.link.attach(0)
    return end


def test_a_replay_is_dropped(end):
    for number in (1, 2, 1, 2, 2, 3):
        end.link.receive(end.stream, frame(number))
    assert end.got == ["1", "2", "3"] and end.link.seen == 3


def test_a_gap_is_refused(end):
    end.link.receive(end.stream, frame(1))
    with pytest.raises(ProtocolError, match="Expected frame 2 of peer, got 3"):
        end.link.receive(end.stream, frame(3))
    assert end.got == ["1"]


def test_a_confirmation_of_what_was_never_sent_is_refused(end):
    end.link.send(1, note("one"))
    with pytest.raises(ProtocolError):
        end.link.receive(end.stream, frame(1, seen=2))
    assert not end.got
    for seen in (2, -1):
        with pytest.raises(ProtocolError, match="to have seen frames that were sent"):
            end.link.attach(seen)


def test_who_confirmed_more_cannot_go_back(end):
    for text in "abc":
        end.link.send(1, note(text))
    end.link.receive(end.stream, frame(1, seen=2))
    with pytest.raises(ProtocolError):
        end.link.attach(1)  # frame 2 is gone: it was confirmed
    assert end.link.attach(2)


def test_another_version_is_refused(end):
    with pytest.raises(ProtocolError):
        end.link.receive(end.stream, frame(1, version=VERSION + 1))


def test_a_stream_that_is_no_longer_in_use_delivers_nothing(end):
    old, new = end.stream, end.link.attach(0)
    end.link.receive(old, frame(1))
    assert not end.got and list(end.link.outgoing(old)) == []
    end.link.receive(new, frame(1))
    assert end.got == ["1"]
    assert not end.link.detach(old) and end.link.is_open
    assert end.link.detach(new) and not end.link.is_open


def test_a_reset_forgets_and_drops_what_was_meant_for_the_process_that_died(end):
    end.link.send(1, note("old"))
    end.link.receive(end.stream, frame(1))
    end.link.reset()
    assert not end.link.is_open
    end.link.send(1, note("still to the old one"))
    stream = end.link.attach(0)
    end.link.accept_new_process()
    end.link.send(2, note("new"))
    first = Packet.from_bytes(next(end.link.outgoing(stream)))
    assert (first.number, first.seen, first.frame.note.text) == (1, 0, "new")
    end.link.receive(stream, frame(1))
    assert end.got == ["1", "1"]


def test_two_new_processes_in_a_row_need_two_greetings(end):
    end.link.reset()
    end.link.reset()
    end.link.accept_new_process()
    end.link.send(1, note("to the first of them"))
    end.link.accept_new_process()
    end.link.send(1, note("to the second"))
    assert Packet.from_bytes(next(end.link.outgoing(end.link.attach(0)))).frame.note.text == "to the second"


def test_draining_ends_with_the_last_confirmation_or_with_the_stream(end):
    assert end.link.wait_confirmed(0)
    end.link.send(1, note("one"))
    assert not end.link.wait_confirmed(0)
    waiting = threading.Thread(target=end.link.wait_confirmed, args=(60,))
    waiting.start()
    end.link.receive(end.stream, frame(1, seen=1))
    waiting.join(10)
    assert not waiting.is_alive() and end.link.wait_confirmed(0)
    end.link.send(1, note("two"))
    end.link.close()
    assert not end.link.wait_confirmed(60)  # at once: nobody is there to confirm it


def test_a_frame_is_never_overtaken_by_one_of_a_newer_stream():
    """The reader of an old stream is held in the middle of its delivery while a new stream is attached."""
    got, entered, go_on = [], threading.Event(), threading.Event()

    def deliver(peer, packet):
        if packet.number == 1:
            entered.set()
            go_on.wait(10)
        got.append(packet.number)

    link = Link("peer", deliver)
    old = link.attach(0)
    slow = threading.Thread(target=link.receive, args=(old, frame(1)))
    slow.start()
    entered.wait(10)
    again = threading.Thread(target=lambda: link.receive(link.attach(0), frame(2)))
    again.start()
    again.join(0.2)
    assert again.is_alive() and not got
    go_on.set()
    slow.join(10)
    again.join(10)
    assert got == [1, 2]


def test_senders_in_many_threads_lose_nothing():
    """What the label party hands on is sent by threads other than its own."""
    link, count = Link("peer", lambda peer, frame: None), 200
    stream = link.attach(0)
    threads = [threading.Thread(target=lambda: [link.send(1, note("x")) for _ in range(count)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    source = link.outgoing(stream)
    numbers = [Packet.from_bytes(next(source)).number for _ in range(4 * count)]
    assert numbers == list(range(1, 4 * count + 1))
    for thread in threads:
        thread.join()
