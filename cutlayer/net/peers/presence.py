"""Presence: who is connected, who is missing and since when, and how long to wait for them.

The user hears who is missing as soon as a stream's thread knows it, since the party's own thread may be busy for
minutes. Feature parties are connected to the label party alone, so it tells each of them who else is missing.
"""

import math
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from cutlayer.errors import RunError
from cutlayer.net.peers.events import Event, NoteReceived, PeerJoined, PeerLost, Topic
from cutlayer.net.peers.mailbox import Mailbox

SILENT = 10.0  # seconds without anything arriving before the user is told


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to wait for a missing party, and what the user can do when that time is over."""

    seconds: float  # math.inf: for ever
    advice: str

    @property
    def limit(self) -> str:
        """The end of a sentence about waiting; empty where there is no limit."""
        return "" if math.isinf(self.seconds) else f", at most {self.seconds:.0f} seconds"


class Presence:
    """Keeps track of the peers of one mailbox, and reports who is missing."""

    def __init__(self, mailbox: Mailbox, patience: Patience, log: Callable[[str], None]) -> None:
        self.mailbox, self.patience, self.log = mailbox, patience, log
        self.connected: set[str] = set()
        self.idle = False  # nothing is expected to arrive, so silence is not reported
        self._missing_since: dict[str, float] = {}
        self._excused: set[str] = set()  # peers that have finished, and may disconnect
        self._disconnected: set[str] = set()  # as the streams' threads know it
        self._last_told: dict[str, list[str]] = {}  # the missing parties that each peer was last told of
        self._lock = threading.RLock()  # for these two
        self._last_event = time.monotonic()
        mailbox.on_event = self._report

    def excuse(self, peer: str) -> None:
        """A peer has finished: it may disconnect without being missed."""
        self._excused.add(peer)

    def wait_for(self, peers: Iterable[str]) -> None:
        """Count absent peers as missing from now on, and say so of those that were not yet."""
        if new := [peer for peer in peers if peer not in self.connected and peer not in self._missing_since]:
            self.restart_patience(new)
            self.log(f"Waiting for {', '.join(new)}{self.patience.limit}.")
            self.tell_missing()

    def restart_patience(self, peers: Iterable[str]) -> None:
        """Count absent peers as missing since now."""
        now = time.monotonic()
        self._missing_since |= {peer: now for peer in peers if peer not in self.connected}

    def handle(self, event: Event) -> None:
        """Take note of an event, in the party's own thread."""
        self._last_event = time.monotonic()
        if isinstance(event, PeerLost):
            self.connected.discard(event.peer)
            if event.peer not in self._excused:
                self._missing_since.setdefault(event.peer, time.monotonic())
        elif isinstance(event, PeerJoined):
            if self._missing_since.pop(event.peer, None) is not None:
                self.log(f"{event.peer} is here.")
            self.connected.add(event.peer)
            if event.new_process:
                with self._lock:
                    self._last_told.pop(event.peer, None)

    def tell_missing(self) -> None:
        """Label party: tell every connected peer who else is missing, if that changed."""
        with self._lock:
            missing = sorted(self._disconnected | {peer for peer in self.mailbox.peers if peer in self._missing_since})
            for peer in self.mailbox.peers if self.mailbox.leads else ():
                if peer not in missing and self._last_told.get(peer, []) != missing:
                    self.mailbox.send_note(peer, Topic.MISSING, who=missing)
                    self._last_told[peer] = missing

    def check_patience(self) -> None:
        """Raise when a peer has been missing for longer than the user allows."""
        for peer, since in self._missing_since.items():
            if (waited := time.monotonic() - since) > self.patience.seconds:
                raise RunError(f"{peer} has been missing for {waited:.0f} seconds{self.patience.advice}")

    def report_silence(self, activity: str) -> None:
        """Nothing arrived for a while: say so, unless nothing is expected."""
        now = time.monotonic()
        if self.idle or now - self._last_event <= SILENT:
            return
        if self._missing_since:
            self.log(f"Waiting {activity}: missing {', '.join(sorted(self._missing_since))}.")
        else:
            names = ", ".join(sorted(self.connected))
            self.log(f"Waiting {activity}: no word from {names} for {SILENT:.0f} seconds, though connected.")
        self._last_event = now

    def _report(self, event: Event) -> None:
        """Report who is missing, in a stream's own thread."""
        with self._lock:
            if isinstance(event, PeerLost) and event.peer not in self._excused:
                self._disconnected.add(event.peer)
                self.log(f"{event.peer} is gone ({event.reason}); waiting for it{self.patience.limit}.")
                self.tell_missing()
            elif isinstance(event, PeerJoined):
                self._disconnected.discard(event.peer)
                if event.new_process:
                    self._excused.discard(event.peer)
            elif isinstance(event, NoteReceived) and event.topic == Topic.MISSING:
                self._report_missing(event)
            elif isinstance(event, NoteReceived) and event.topic == Topic.STOPPED:
                self.excuse(event.peer)

    def _report_missing(self, note: NoteReceived) -> None:
        names = note.facts.get("who")
        missing = [party for party in self.mailbox.parties if isinstance(names, list) and party in names]
        state = f"waits for {', '.join(missing)}" if missing else "says that all are here"
        self.log(f"{note.peer} {state}.")
