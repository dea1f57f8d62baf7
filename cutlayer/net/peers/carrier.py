"""Carrier: carries a batch's messages between the one party that is here and those elsewhere.

It is to a network what `session.in_process` is to a simulation. It also keeps watch: it says by name who is
missing, waits as long as the user allows, and raises `Regroup` when a party comes back as a new process.
"""

import queue
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from cutlayer.errors import CutlayerError, ProtocolError, RunError
from cutlayer.message import Batch, Message
from cutlayer.net.party.ledger import Ledger
from cutlayer.net.peers.handshake import printable
from cutlayer.net.peers.mailbox import Broke, Came, Event, Gone, Joined, Post, Said
from cutlayer.session import Opened, Record, Result, Talks

SILENT = 10.0  # seconds without a word before one is said about it
TICK = 1.0


class Regroup(Exception):
    """A party is a new process: all go back to the last checkpoint that they have in common."""

    def __init__(self, peer: str) -> None:
        super().__init__(peer)
        self.peer = peer


class Stopped(CutlayerError):
    """A party ended the run, and says why."""

    def __init__(self, party: str, why: str) -> None:
        super().__init__(f"{party} stopped on {why}")
        self.party = party


class Carrier:
    """Sends what the party here sends, hands it what arrives, and watches over the peers."""

    def __init__(self, post: Post, *, patience: float, log: Callable[[str], None], ledger: Ledger | None) -> None:
        self.post, self.patience, self.log, self.ledger = post, patience, log, ledger
        self._early: list[Came] = []  # messages of a batch that the party here has not come to yet
        self._notes: list[Said] = []
        self._leads = post.name == post.label_party
        self._here: set[str] = set()
        self._gone: dict[str, float] = {}  # since when a peer is missing
        self._parted: set[str] = set()  # peers that are done, and may go
        self._lost: set[str] = set()  # peers without a stream, as the streams' threads know it
        self._told: dict[str, list[str]] = {}  # whom a peer was last told to be missing
        self._saying = threading.RLock()  # for these two
        post.notice = self._notice
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
        self._early = [came for came in self._early if self._is_current(came)]
        self._notes = [said for said in self._notes if self._is_current(said)]

    def _is_current(self, event: Came | Said) -> bool:
        """Whether it belongs to this meeting or, where another party leads, to one that we have not heard of yet."""
        if self._leads:
            return event.generation == self.post.generation
        return event.generation >= self.post.generation

    def wait_joined(self, peers: Iterable[str]) -> None:
        """Wait until these peers are here."""
        while waiting := [peer for peer in peers if peer not in self._here]:
            if new := [peer for peer in waiting if peer not in self._gone]:
                self._gone |= dict.fromkeys(new, time.monotonic())
                self.log(f"Waiting for {', '.join(new)}, at most {self.patience:.0f} seconds.")
                self._tell_missing()
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

    def part(self, peers: Iterable[str]) -> None:
        """Say that all is done, to each new process again, until everybody has said goodbye."""
        left, told = set(peers), set[str]()
        self._gone |= {peer: time.monotonic() for peer in left - self._here}
        while left:
            for peer in left & self._here - told:
                self.post.tell(peer, "done")
                told.add(peer)
            try:
                event = self._event(f"for {', '.join(sorted(left))}")
            except Regroup as anew:
                told.discard(anew.peer)
                continue
            if isinstance(event, Said) and event.topic == "bye" and event.peer in left:
                left.remove(event.peer)
                self.leave(event.peer)
                self.post.tell(event.peer, "bye")  # which confirms that its goodbye was heard

    def leave(self, peer: str) -> None:
        """A peer is done with us: it may go without a word."""
        self._parted.add(peer)

    def stop(self, error: CutlayerError) -> None:
        """Tell all that this process ends, and whose error it was. What exactly went wrong is said there only: it may
        name columns or ids."""
        who, kind = self.post.name, f" ({type(error).__name__})"
        if isinstance(error, Stopped):  # of what another said, no word is passed on
            who, kind = error.party, ""
        for peer in self.post.peers:
            self.leave(peer)
            if peer != who:
                self.post.tell(peer, "stopped", who=who, why=f"an error of its own{kind}: ask {who} what it said.")
        self.post.drain(self.post.peers, 2.0)

    def wait_stopped(self, timeout: float) -> None:
        """What ends the run here ends it for the label party as well: let it be the first to hang up."""
        until = time.monotonic() + timeout
        with suppress(CutlayerError, Regroup):
            while time.monotonic() < until:
                self._event("for the end")

    def _note_down(self, said: Said, regrouping: bool = False) -> None:
        self._notes.append(said)
        if said.topic == "regroup" and said.generation > self.post.generation and not regrouping:
            raise Regroup(said.peer)

    def _next_message(self, batch: Batch) -> Message:
        for place, came in enumerate(self._early):
            if came.message.step == batch.step and came.generation == self.post.generation:
                return self._message(self._early.pop(place), batch)
        while True:
            event = self._event(f"in step {batch.step}")
            if isinstance(event, Said):
                self._note_down(event)
            elif isinstance(event, Came):
                if event.generation == self.post.generation and event.message.step == batch.step:
                    return self._message(event, batch)
                if event.message.step < batch.step and event.generation == self.post.generation:
                    raise ProtocolError(
                        f"Expected a message of step {batch.step} from {event.peer}, got {event.message.step}."
                    )
                self._early.append(event)

    def _message(self, came: Came, batch: Batch) -> Message:
        arrived, form = came.message, came.message.form
        if form.phase is not batch.phase:
            raise ProtocolError(f"Expected {came.peer} to {batch.phase.value} in step {batch.step}, got another phase.")
        return Message(batch, form.sender, form.receiver, form.kind, arrived.payload, form.encoding)

    def _event(self, doing: str) -> Said | Came | None:
        """The next event, for as long as the user allows; says who is missing, and who is back."""
        if self.post.events.empty():  # or whoever is missing may be back by now
            self._give_up()
        try:
            event: Any = self.post.events.get(timeout=TICK)
        except queue.Empty:
            self._watch(doing)
            return None
        self._heard = time.monotonic()
        if isinstance(event, Gone):
            self._here.discard(event.peer)
            if event.peer not in self._parted:
                self._gone.setdefault(event.peer, time.monotonic())
        elif isinstance(event, Broke):
            raise event.error
        elif isinstance(event, Joined):
            if self._gone.pop(event.peer, None) is not None:
                self.log(f"{event.peer} is here.")
            self._here.add(event.peer)
            if event.anew:
                self._forget(event.peer)
            self._tell_missing()
            if event.anew:
                raise Regroup(event.peer)
        elif isinstance(event, Said) and event.topic == "stopped":
            raise Stopped(self._who(event), printable(event.facts.get("why", "")))
        elif isinstance(event, Said) and event.topic == "missing":
            pass  # it was said when it came
        elif self._is_current(event):
            return event  # type: ignore[no-any-return]
        return None

    def _who(self, said: Said) -> str:
        """Whose error a peer speaks of: its own, but for the label party, which passes on that another has stopped."""
        named = said.facts.get("who") if said.peer == self.post.label_party else None
        return next((party for party in self.post.parties if party == named), said.peer)

    def _forget(self, peer: str) -> None:
        """A peer is a new process: what the one before it said is void, and what we send is for the new one."""
        self._notes = [said for said in self._notes if said.peer != peer]
        self._early = [came for came in self._early if came.peer != peer]
        with self._saying:
            self._told.pop(peer, None)
        if peer == self.post.label_party:
            self.post.generation = 0  # it counts meetings from a number of its own
        self.post.links[peer].greet()

    def _notice(self, event: Event) -> None:
        """Say who is missing as soon as a stream's thread knows: the party's own may be busy for minutes."""
        with self._saying:
            if isinstance(event, Gone) and event.peer not in self._parted:
                self._lost.add(event.peer)
                self.log(f"{event.peer} is gone ({event.why}); waiting for it, at most {self.patience:.0f} seconds.")
                self._tell_missing()
            elif isinstance(event, Joined):
                self._lost.discard(event.peer)
                if event.anew:
                    self._parted.discard(event.peer)
            elif isinstance(event, Said) and event.topic == "missing":
                self._say_missing(event)
            elif isinstance(event, Said) and event.topic == "stopped":
                self.leave(event.peer)

    def _tell_missing(self) -> None:
        """Feature parties know the label party alone: it tells each of them who else is missing."""
        with self._saying:
            missing = sorted(self._lost | {peer for peer in self.post.peers if peer in self._gone})
            for peer in self.post.peers if self._leads else ():
                if peer not in missing and self._told.get(peer, []) != missing:
                    self.post.tell(peer, "missing", who=missing)
                    self._told[peer] = missing

    def _say_missing(self, said: Said) -> None:
        named = said.facts.get("who")
        who = [party for party in self.post.parties if isinstance(named, list) and party in named]
        self.log(f"{said.peer} waits for {', '.join(who)}." if who else f"{said.peer} says that all are here.")

    def _give_up(self) -> None:
        """When the user's patience is at its end."""
        for peer, since in self._gone.items():
            if (waited := time.monotonic() - since) > self.patience:
                raise RunError(
                    f"{peer} has been missing for {waited:.0f} seconds; what was trained is kept: start all parties "
                    "again, and they go on from the last checkpoint."
                )

    def _watch(self, doing: str) -> None:
        """Nothing came for a while: say so."""
        now = time.monotonic()
        if now - self._heard > SILENT:
            if self._gone:
                self.log(f"Waiting {doing}: missing {', '.join(sorted(self._gone))}.")
            else:
                who = ", ".join(sorted(self._here))
                self.log(f"Waiting {doing}: no word from {who} for {SILENT:.0f} seconds, though connected.")
            self._heard = now
