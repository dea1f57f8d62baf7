"""Inbox: the party's own thread reads events here, and waits for the notes and messages that it needs next.

Every wait is one loop over `next_event`, which gives up when a party has been missing for longer than the user allows,
and raises `Regroup` when a party comes back as a new process.
"""

import queue
from collections.abc import Iterable

from cutlayer.errors import ProtocolError
from cutlayer.message import Batch, Message
from cutlayer.net.peers.differences import printable
from cutlayer.net.peers.events import (
    Event,
    MessageReceived,
    NoteReceived,
    PeerFailed,
    PeerJoined,
    Regroup,
    Stopped,
    Topic,
)
from cutlayer.net.peers.mailbox import Mailbox
from cutlayer.net.peers.presence import Presence

TICK = 1.0  # seconds between two looks at who is missing


class Inbox:
    """What arrived and was not needed yet, and the ways to wait for more."""

    def __init__(self, mailbox: Mailbox, presence: Presence) -> None:
        self.mailbox, self.presence = mailbox, presence
        self._messages: list[MessageReceived] = []  # of a batch that the party here has not reached yet
        self._notes: list[NoteReceived] = []

    def begin_meeting(self, generation: int) -> None:
        """A new meeting begins: forget what remains of the one before."""
        self.mailbox.generation = generation
        self._messages = [event for event in self._messages if self._is_current(event)]
        self._notes = [event for event in self._notes if self._is_current(event)]

    def wait_connected(self, peers: Iterable[str]) -> None:
        """Wait until these peers are connected."""
        connected = self.presence.connected
        while missing := [peer for peer in peers if peer not in connected]:
            self.presence.wait_for(missing)
            try:
                event = self.next_event(f"for {', '.join(missing)}")
            except Regroup:
                continue
            if isinstance(event, NoteReceived):
                self._notes.append(event)

    def wait_notes(self, topic: str, peers: Iterable[str]) -> dict[str, NoteReceived]:
        """Wait for a note on a topic from each of these peers, in the current meeting."""
        return {peer: self.wait_note((topic,), peer) for peer in peers}

    def wait_note(self, topics: Iterable[str], peer: str, *, generation: int | None = None) -> NoteReceived:
        """Wait for a peer's note on one of these topics, of the current meeting or of a given one, or of a later."""
        topics = tuple(topics)
        least = self.mailbox.generation if generation is None else generation
        while True:
            for place in reversed(range(len(self._notes))):  # the newest counts
                note = self._notes[place]
                if note.topic in topics and note.peer == peer and note.generation >= least:
                    return self._notes.pop(place)
            self._keep(self.next_event(f"for {peer}"), regrouping=Topic.REGROUP in topics)

    def wait_message(self, batch: Batch) -> Message:
        """Wait for the next message of a batch."""
        while True:
            for place, kept in enumerate(self._messages):
                if kept.generation == self.mailbox.generation and kept.message.step == batch.step:
                    return _message(self._messages.pop(place), batch)
            event = self.next_event(f"in step {batch.step}")
            if isinstance(event, MessageReceived) and self._is_late(event, batch):
                raise ProtocolError(
                    f"Expected a message of step {batch.step} from {event.peer}, got {event.message.step}."
                )
            self._keep(event)

    def read_pending(self) -> None:
        """Take in what arrived while there was nothing to do."""
        while not self.mailbox.events.empty():
            self._keep(self.next_event("for requests"))

    def next_event(self, activity: str) -> NoteReceived | MessageReceived | None:
        """The next note or message of this meeting, or None after something else or after a second of silence."""
        if self.mailbox.events.empty():  # otherwise a missing party may be back by now
            self.presence.check_patience()
        try:
            event = self.mailbox.events.get(timeout=TICK)
        except queue.Empty:
            self.presence.report_silence(activity)
            return None
        self.presence.handle(event)
        return self._sort(event)

    def _sort(self, event: Event) -> NoteReceived | MessageReceived | None:
        if isinstance(event, PeerFailed):
            raise event.error
        if isinstance(event, PeerJoined):
            if event.new_process:
                self._start_again_with(event.peer)
            self.presence.tell_missing()
            if event.new_process:
                raise Regroup(event.peer)
        elif isinstance(event, NoteReceived) and event.topic == Topic.STOPPED:
            raise Stopped(self._origin(event), printable(event.facts.get("why", "")))
        elif isinstance(event, NoteReceived) and event.topic == Topic.MISSING:
            return None  # it was reported when it arrived
        elif isinstance(event, NoteReceived | MessageReceived) and self._is_current(event):
            return event
        return None

    def _keep(self, event: NoteReceived | MessageReceived | None, regrouping: bool = False) -> None:
        """Keep an event for later; a call for a new meeting is followed at once, unless it is what we wait for."""
        if isinstance(event, MessageReceived):
            self._messages.append(event)
        elif isinstance(event, NoteReceived):
            self._notes.append(event)
            if event.topic == Topic.REGROUP and event.generation > self.mailbox.generation and not regrouping:
                raise Regroup(event.peer)

    def _is_current(self, event: NoteReceived | MessageReceived) -> bool:
        """Whether it belongs to this meeting or, where another party leads, to one that we have not heard of yet."""
        if self.mailbox.leads:
            return event.generation == self.mailbox.generation
        return event.generation >= self.mailbox.generation

    def _is_late(self, event: MessageReceived, batch: Batch) -> bool:
        return event.generation == self.mailbox.generation and event.message.step < batch.step

    def _origin(self, note: NoteReceived) -> str:
        """Whose error a peer reports: its own, except that the label party passes on that another has stopped."""
        name = note.facts.get("who") if note.peer == self.mailbox.label_party else None
        return next((party for party in self.mailbox.parties if party == name), note.peer)

    def _start_again_with(self, peer: str) -> None:
        """A peer is a new process: what the old one sent is void, and what we send is for the new one."""
        self._notes = [note for note in self._notes if note.peer != peer]
        self._messages = [event for event in self._messages if event.peer != peer]
        if peer == self.mailbox.label_party:
            self.mailbox.generation = 0  # the new process numbers meetings from another start
        self.mailbox.links[peer].accept_new_process()


def _message(event: MessageReceived, batch: Batch) -> Message:
    payload, header = event.message.payload, event.message.header
    if header.phase is not batch.phase:
        raise ProtocolError(f"Expected {event.peer} to {batch.phase.value} in step {batch.step}, got another phase.")
    return Message(batch, header.sender, header.receiver, header.kind, payload, header.encoding)
