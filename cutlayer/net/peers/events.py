"""Events: what arrives from the other parties, and the topics of the notes that they exchange."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from cutlayer.errors import CutlayerError
from cutlayer.net.wire.frame import ReceivedMessage


class Topic(StrEnum):
    """What a note is about (docs/ref-wire.md). A note on another topic is ignored."""

    REGROUP = "regroup"
    STATE = "state"
    ALIGN = "align"
    ALIGNED = "aligned"
    FACTS = "facts"
    SHAPE = "shape"
    BEGIN = "begin"
    ASK = "ask"
    END = "end"
    SAVED = "saved"
    DONE = "done"
    BYE = "bye"
    MISSING = "missing"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class NoteReceived:
    """A note from a peer."""

    peer: str
    generation: int
    topic: str
    facts: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class MessageReceived:
    """A message of the learning protocol."""

    peer: str
    generation: int
    message: ReceivedMessage


@dataclass(frozen=True, slots=True)
class PeerJoined:
    """A peer is connected: a new process, or the same one over a new stream."""

    peer: str
    new_process: bool


@dataclass(frozen=True, slots=True)
class PeerLost:
    """A peer's stream ended."""

    peer: str
    reason: str


@dataclass(frozen=True, slots=True)
class PeerFailed:
    """A peer broke the protocol, or refused us."""

    peer: str
    error: CutlayerError


Event = NoteReceived | MessageReceived | PeerJoined | PeerLost | PeerFailed


class Regroup(Exception):
    """A party is a new process: everyone goes back to the last checkpoint that all have."""

    def __init__(self, peer: str) -> None:
        super().__init__(peer)
        self.peer = peer


class Stopped(CutlayerError):
    """A party ended the run and said why."""

    def __init__(self, party: str, reason: str) -> None:
        super().__init__(f"{party} stopped on {reason}")
        self.party = party
