"""Carrier: carries a batch's messages between the one party that is here and those elsewhere.

It is to a network what `session.in_process` is to a simulation. It also keeps watch: it says by name who is
missing, waits as long as the user allows, and raises `Regroup` when a party comes back as a new process.
"""

import queue
import time
from collections.abc import Callable, Iterable
from typing import Any

from cutlayer.errors import CutlayerError, ProtocolError, RunError
from cutlayer.message import Batch, Message
from cutlayer.net.ledger import Ledger
from cutlayer.net.post import Broke, Came, Gone, Joined, Post, Said
from cutlayer.session import Opened, Record, Result, Talks

SILENT = 15.0  # seconds without a word before one is said about it
TICK = 1.0


class Regroup(Exception):
    """A party is a new process: all go back to the last checkpoint that they have in common."""


class Stopped(CutlayerError):
    """A peer ended the run, and says why."""


class Carrier:
    """Sends what the party here sends, hands it what arrives, and watches over the peers."""

    def __init__(self, post: Post, *, patience: float, log: Callable[[str], None], ledger: Ledger | None) -> None:
        self.post, self.patience, self.log, self.ledger = post, patience, log, ledger
        self._early: list[Came] = []  # messages of a batch that the party here has not come to yet
        self._notes: list[Said] = []
        self._here: set[str] = set()
        self._gone: dict[str, float] = {}  # since when a peer is missing
        self._heard = time.monotonic()

    def start(self, batch: Batch | None, talks: Talks, record: Record) -> Opened:
        """Begin the talk of the party here, up to where it waits."""
        opened = Opened(batch, dict(talks))
        for name in talks:
            self._resume(opened, name, None, record)
        return opened

    def finish(self, opened: Opened, talks: Talks, record: Record) -> Result:
        """Hand the party here what arrives until it has finished the batch."""
        assert opened.batch is not None
        opened.talks |= talks
        for name in talks:
            self._resume(opened, name, None, record)
        (name,) = opened.talks
        while name not in opened.results:
            message = self._next_message(opened.batch)
            record(message)
            self._resume(opened, name, message, record)
        return opened.results

    def _resume(self, opened: Opened, name: str, message: Message | None, record: Record) -> None:
        opened.resume(name, message, record)
        while opened.post:
            sent = opened.post.popleft()
            record(sent)
            if self.ledger is not None:
                self.ledger.write(sent)
            self.post.send(sent)

    def begin(self, generation: int) -> None:
        """A new meeting: what is left of the one before is forgotten."""
        self.post.generation = generation
        self._early = [came for came in self._early if came.generation >= generation]
        self._notes = [said for said in self._notes if said.generation >= generation]

    def wait_joined(self, peers: Iterable[str]) -> None:
        """Wait until these peers are here."""
        while waiting := [peer for peer in peers if peer not in self._here]:
            for peer in waiting:
                self._gone.setdefault(peer, time.monotonic())
            try:
                event = self._event(f"for {', '.join(waiting)}")
            except Regroup:
                continue
            if isinstance(event, Said):
                self._notes.append(event)

    def note(self, topic: str, peers: Iterable[str], *, generation: int | None = None) -> dict[str, Said]:
        """Wait for a note on a topic from each of these peers, of this meeting or of a given one or later."""
        return {peer: self.either((topic,), peer, generation=generation) for peer in peers}

    def either(self, topics: Iterable[str], peer: str, *, generation: int | None = None) -> Said:
        """Wait for a note of a peer on one of these topics."""
        least = self.post.generation if generation is None else generation
        while True:
            fitting = [s for s in self._notes if s.topic in topics and s.peer == peer and s.generation >= least]
            if fitting:
                self._notes = [said for said in self._notes if said is not fitting[-1]]
                return fitting[-1]
            event = self._event(f"for {peer}")
            if isinstance(event, Said):
                self._note_down(event, regrouping="regroup" in topics)
            elif isinstance(event, Came):
                self._early.append(event)

    def _note_down(self, said: Said, regrouping: bool = False) -> None:
        self._notes.append(said)
        if said.topic == "regroup" and said.generation > self.post.generation and not regrouping:
            raise Regroup

    def _next_message(self, batch: Batch) -> Message:
        for came in self._early:
            if came.message.step == batch.step:
                self._early.remove(came)
                return self._message(came, batch)
        while True:
            event = self._event(f"in step {batch.step}")
            if isinstance(event, Said):
                self._note_down(event)
            elif isinstance(event, Came) and event.generation >= self.post.generation:
                if event.generation == self.post.generation and event.message.step == batch.step:
                    return self._message(event, batch)
                if event.message.step < batch.step and event.generation == self.post.generation:
                    raise ProtocolError(
                        f"Expected a message of step {batch.step} from {event.peer}, got {event.message.step}."
                    )
                self._early.append(event)

    def _message(self, came: Came, batch: Batch) -> Message:
        arrived = came.message
        if arrived.phase is not batch.phase:
            raise ProtocolError(f"Expected {came.peer} to {batch.phase.value} in step {batch.step}, got another phase.")
        return Message(batch, arrived.sender, arrived.receiver, arrived.kind, arrived.payload, arrived.encoding)

    def _event(self, doing: str) -> Said | Came | None:
        """The next event, for as long as the user allows; says who is missing, and who is back."""
        try:
            event: Any = self.post.events.get(timeout=TICK)
        except queue.Empty:
            self._watch(doing)
            return None
        self._heard = time.monotonic()
        if isinstance(event, Gone):
            self._here.discard(event.peer)
            self._gone.setdefault(event.peer, time.monotonic())
            self.log(f"{event.peer} is gone ({event.why}); waiting for it, at most {self.patience:.0f} seconds.")
        elif isinstance(event, Broke):
            raise event.error
        elif isinstance(event, Joined):
            waited = self._gone.pop(event.peer, None)
            if waited is not None:
                self.log(f"{event.peer} is here.")
            self._here.add(event.peer)
            if event.anew:
                self._notes = [said for said in self._notes if said.peer != event.peer]
                if event.peer == self.post.label_party:
                    self.post.generation = 0  # it counts meetings from the beginning
                raise Regroup
        elif isinstance(event, Said) and event.topic == "stopped":
            raise Stopped(f"{event.peer} ended the run: {str(event.facts.get('why', ''))[:500]}")
        else:
            return event  # type: ignore[no-any-return]
        return None

    def _watch(self, doing: str) -> None:
        """Nothing came for a while: say so, and give up when the user's patience is at its end."""
        now = time.monotonic()
        for peer, since in self._gone.items():
            if now - since > self.patience:
                raise RunError(
                    f"{peer} has been missing for {now - since:.0f} seconds; what was trained is kept: start all "
                    f"parties again, and they go on from the last checkpoint."
                )
        if now - self._heard > SILENT:
            if self._gone:
                self.log(f"Waiting {doing}: missing {', '.join(sorted(self._gone))}.")
            else:
                who = ", ".join(sorted(self._here))
                self.log(f"Waiting {doing}: no word from {who} for {SILENT:.0f} seconds, though connected.")
            self._heard = now
