"""Mailbox: everything one process sends to its peers and receives from them, whichever side dialled.

Streams run in threads of their own. What arrives is checked there and put into one queue, which the party's own
thread reads. So parties and protocols stay single-threaded, and a long batch never keeps the network waiting.
"""

import json
import queue
import secrets
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from cutlayer.errors import ProtocolError
from cutlayer.json_types import Json
from cutlayer.message import Kind, Message
from cutlayer.net.peers.events import Event, MessageReceived, NoteReceived
from cutlayer.net.trust.identity import Identity
from cutlayer.net.wire.frame import CAPS, NUMBER, AllowedMessages, Encoder, FrameReader, statement
from cutlayer.net.wire.link import Link
from cutlayer.net.wire.packet import PART, Packet, note
from cutlayer.net.wire.schema import TensorHeader

# Seconds that a stream's thread waits for a busy party at most; Python's default of 5 ms costs a fifth of a step.
SWITCH_SECONDS = 0.0002


@dataclass(eq=False)
class Mailbox:
    """This process's links, and the queue of what arrived over them."""

    name: str
    label_party: str
    run: bytes  # sha256 of the manifest
    peers: tuple[str, ...]  # at the other ends of our links
    parties: tuple[str, ...]  # everyone who takes part
    identity: Identity | None
    generation: int = 0  # number of the current meeting
    incarnation: str = field(default_factory=lambda: secrets.token_hex(16))  # of this process

    def __post_init__(self) -> None:
        sys.setswitchinterval(SWITCH_SECONDS)
        self.events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self.links = {peer: Link(peer, self._deliver) for peer in self.peers}
        if self.leads:
            self.generation = 1 + secrets.randbits(48)  # so that no meeting has the number of a dead process's
        self._encoder = Encoder(self.run)
        self.on_event: Callable[[Event], None] = lambda event: None  # called in a stream's own thread
        self.allow({}, rows=1)

    @property
    def leads(self) -> bool:
        """Whether this is the label party, which leads every meeting."""
        return self.name == self.label_party

    def put(self, event: Event) -> None:
        """Queue an event, and report it at once even while the party's own thread is busy."""
        self.events.put(event)
        self.on_event(event)

    def allow(self, shapes: Mapping[str, tuple[int, ...]], rows: int) -> None:
        """Set which embeddings or gradients may arrive, and how many rows a batch may have."""
        others = frozenset(self.parties) - {self.name}
        senders = {peer: others if peer == self.label_party else frozenset([peer]) for peer in self.peers}
        self._readers = {
            peer: FrameReader(AllowedMessages(self.run, self.name, senders[peer], rows, shapes)) for peer in self.peers
        }

    def send_note(self, peer: str, topic: str, **facts: Json) -> None:
        """Send a note."""
        self.links[peer].send(self.generation, note(topic, json.dumps(facts)))

    def send_note_to_all(self, topic: str, **facts: Json) -> None:
        """Send a note to every peer."""
        for peer in self.peers:
            self.send_note(peer, topic, **facts)

    def send(self, message: Message) -> None:
        """Send a message; one to another feature party goes through the label party, signed."""
        through = message.receiver if message.receiver in self.links else self.label_party
        for packet in self._encoder.packets(message):
            if through != message.receiver and self.identity is not None:
                packet = _signed(packet, self.identity)
            self.links[through].send(self.generation, packet)

    def restart_link(self, peer: str) -> None:
        """Start again from zero with a peer that is a new process."""
        self.links[peer].reset()
        self._readers[peer] = FrameReader(self._readers[peer].allowed)

    def wait_confirmed(self, peers: Iterable[str], timeout: float) -> None:
        """Wait until peers have confirmed everything that was sent."""
        for peer in peers:
            self.links[peer].wait_confirmed(timeout)

    def _deliver(self, peer: str, packet: Packet) -> None:
        """Check a packet, in its stream's thread; forward it or queue it."""
        reader = self._readers[peer]
        if packet.header != reader.header:  # otherwise it is like the last one, and for us
            frame = packet.frame
            if frame.WhichOneof("body") == "note":
                self.put(NoteReceived(peer, packet.generation, frame.note.topic, _facts(peer, frame.note.text)))
                return
            if frame.tensor.receiver != self.name:
                self._forward(peer, packet, frame.tensor)
                return
        message = reader.add(packet)
        if message is None:
            return
        if message.header.sender != peer and self.identity is not None:
            tensor = packet.frame.tensor
            self.identity.verify(tensor.certificate, tensor.sender, statement(packet), tensor.signature)
        self.events.put(MessageReceived(peer, packet.generation, message))

    def _forward(self, peer: str, packet: Packet, tensor: TensorHeader) -> None:
        """Only keys pass from one feature party to another: small, public and signed."""
        known = self.leads and tensor.receiver in self.links and tensor.sender == peer
        if not known or tensor.kind != NUMBER[Kind.SETUP] or len(packet.payload) > min(PART, CAPS[Kind.SETUP]):
            raise ProtocolError(f"Expected a message to {self.name} from {peer}, got one to another party.")
        if packet.generation == self.generation:  # a message of an earlier meeting is of no use to anybody
            self.links[tensor.receiver].send(packet.generation, packet)


def _signed(packet: Packet, identity: Identity) -> Packet:
    """A packet that the label party will forward, signed so that its receiver knows it is ours."""
    frame = packet.frame
    if frame.tensor.parts > 1:
        raise ProtocolError(f"Expected a message to {frame.tensor.receiver} of at most {PART} bytes.")
    frame.tensor.certificate, frame.tensor.signature = identity.shown, identity.sign(statement(packet))
    return packet._replace(header=frame.SerializeToString())


def _facts(peer: str, text: str) -> Mapping[str, object]:
    try:
        facts = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"Expected a note in JSON from {peer}, got something else.") from error
    if not isinstance(facts, dict):
        raise ProtocolError(f"Expected named facts in a note from {peer}, got something else.")
    return facts
