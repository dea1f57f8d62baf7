"""Post: what one process sends to and hears from its peers, whoever dials whom.

Streams run in threads of their own; what arrives is checked there and put into one queue, which the party's own
thread reads. So parties and protocols stay single-threaded, and the network is never kept waiting by a long batch.
"""

import json
import queue
import secrets
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from cutlayer.errors import CutlayerError, ProtocolError
from cutlayer.message import Kind, Message
from cutlayer.net.trust.identity import Identity
from cutlayer.net.wire.frame import CAPS, NUMBER, Allowed, Arrived, Decoder, Encoder, statement
from cutlayer.net.wire.link import Link
from cutlayer.net.wire.packet import PART, Packet, note

HAND_OVER = (
    0.0002  # seconds that a stream's thread waits for a busy party at most; Python's 5 ms cost a fifth of a step
)


@dataclass(frozen=True, slots=True)
class Said:
    """A note from a peer."""

    peer: str
    generation: int
    topic: str
    facts: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Came:
    """A message of the learning protocol."""

    peer: str
    generation: int
    message: Arrived


@dataclass(frozen=True, slots=True)
class Joined:
    """A peer is there: a new process, or the same one over a new stream."""

    peer: str
    anew: bool


@dataclass(frozen=True, slots=True)
class Gone:
    """A peer's stream ended."""

    peer: str
    why: str


@dataclass(frozen=True, slots=True)
class Broke:
    """A peer sent what it must not send."""

    peer: str
    error: CutlayerError


Event = Said | Came | Joined | Gone | Broke


@dataclass(eq=False)
class Post:
    """This process's links, and the queue of what came over them."""

    name: str
    label_party: str
    run: bytes  # sha256 of the manifest
    peers: tuple[str, ...]  # at the other ends of our links
    parties: tuple[str, ...]  # all who take part
    identity: Identity | None
    generation: int = 0  # the number of the meeting that we are in
    incarnation: str = field(default_factory=lambda: secrets.token_hex(16))  # of this process

    def __post_init__(self) -> None:
        sys.setswitchinterval(HAND_OVER)
        self.events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self.links = {peer: Link(peer, self._deliver) for peer in self.peers}
        if self.name == self.label_party:
            self.generation = 1 + secrets.randbits(48)  # so that no meeting has the number of a dead process's
        self._encoder = Encoder(self.run)
        self.notice: Callable[[Event], None] = lambda event: None  # called in a stream's own thread
        self.allow({}, rows=1)

    def put(self, event: Event) -> None:
        """Queue what happened, and say it at once to whom it concerns while the party's own thread is busy."""
        self.events.put(event)
        self.notice(event)

    def allow(self, shapes: Mapping[str, tuple[int, ...]], rows: int) -> None:
        """Say which embeddings or gradients may come, and how many rows a batch may have."""
        others = frozenset(self.parties) - {self.name}
        self._decoders = {
            peer: Decoder(
                Allowed(self.run, self.name, others if peer == self.label_party else frozenset([peer]), rows, shapes)
            )
            for peer in self.peers
        }

    def tell(self, peer: str, topic: str, **facts: Any) -> None:
        """Send a note."""
        self.links[peer].send(self.generation, note(topic, json.dumps(facts)))

    def send(self, message: Message) -> None:
        """Send a message; one to another feature party goes through the label party, signed."""
        through = message.receiver if message.receiver in self.links else self.label_party
        for packet in self._encoder.packets(message):
            if through != message.receiver and self.identity is not None:
                packet = _signed(packet, self.identity)
            self.links[through].send(self.generation, packet)

    def renew(self, peer: str) -> None:
        """Start afresh with a peer that is a new process."""
        self.links[peer].reset()
        self._decoders[peer] = Decoder(self._decoders[peer].allowed)

    def drain(self, peers: Iterable[str], timeout: float) -> None:
        """Wait until peers have confirmed all that was sent."""
        for peer in peers:
            self.links[peer].drained(timeout)

    def _deliver(self, peer: str, packet: Packet) -> None:
        """Check a packet, in its stream's thread; hand it on, or queue it."""
        decoder = self._decoders[peer]
        if packet.header != decoder.header:  # or it is like the last, and for us
            frame = packet.frame
            if frame.WhichOneof("body") == "note":
                self.put(Said(peer, packet.generation, frame.note.topic, _facts(peer, frame.note.text)))
                return
            if frame.tensor.receiver != self.name:
                self._hand_on(peer, packet, frame.tensor)
                return
        arrived = decoder.add(packet)
        if arrived is None:
            return
        if arrived.form.sender != peer and self.identity is not None:
            tensor = packet.frame.tensor
            self.identity.verify(tensor.certificate, tensor.sender, statement(packet), tensor.signature)
        self.events.put(Came(peer, packet.generation, arrived))

    def _hand_on(self, peer: str, packet: Packet, tensor: Any) -> None:
        """Only keys pass from one feature party to another: small, public and signed."""
        known = self.name == self.label_party and tensor.receiver in self.links and tensor.sender == peer
        if not known or tensor.kind != NUMBER[Kind.SETUP] or len(packet.payload) > min(PART, CAPS[Kind.SETUP]):
            raise ProtocolError(f"Expected a message to {self.name} from {peer}, got one to another party.")
        if packet.generation == self.generation:  # what is left of an earlier meeting is of no use to anybody
            self.links[tensor.receiver].send(packet.generation, packet)


def _signed(packet: Packet, identity: Identity) -> Packet:
    """A message that the label party will hand on, so that its receiver can tell that it is ours."""
    frame = packet.frame
    if frame.tensor.parts > 1:
        raise ProtocolError(f"Expected a message to {frame.tensor.receiver} of at most {PART} bytes.")
    frame.tensor.certificate, frame.tensor.signature = identity.shown, identity.sign(statement(packet))
    return packet._replace(header=frame.SerializeToString())


def _facts(peer: str, text: str) -> Mapping[str, Any]:
    try:
        facts = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"Expected a note in JSON from {peer}, got something else.") from error
    if not isinstance(facts, dict):
        raise ProtocolError(f"Expected named facts in a note from {peer}, got something else.")
    return facts
