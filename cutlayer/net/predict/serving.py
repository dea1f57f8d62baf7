"""Serving: joint prediction from the parts that every party saved, over the same links as training.

A feature party answers (`Answering`), the label party asks (asking.py). They meet as for training, with the same
certificates and manifest, and check that they trained together. Then, batch by batch: the label party sends tags of
ids that it names for the first time, hears which of them each party has, names the rows that all have, and all do
their part of a prediction, defences active. A new process at either end, and everything begins anew.
"""

import hashlib
import os
import time
from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor

from cutlayer.errors import CutlayerError, ProtocolError, RunError
from cutlayer.message import Batch, Phase, Talk
from cutlayer.net.party.ledger import Ledger
from cutlayer.net.party.member import identity_of, locked
from cutlayer.net.party.party_file import PartyFile
from cutlayer.net.peers.carrier import Carrier, Regroup, Stopped
from cutlayer.net.peers.dial import Dial
from cutlayer.net.peers.hub import Hub
from cutlayer.net.peers.mailbox import Came, Post, Said
from cutlayer.net.predict.row_index import Numbered, book_of
from cutlayer.net.predict.trained import Trained
from cutlayer.net.predict.which_rows import MOST, answer
from cutlayer.session import Record, Session
from cutlayer.training import using_threads

COUNTED = "serving-count"  # how often this party has met to serve


class Attendant(Carrier):
    """A carrier that may have nothing to do for hours, which is no reason to say anything."""

    idle = False

    def attend(self) -> None:
        """Take note of what came while there was nothing to do; Regroup if somebody is a new process."""
        while not self.post.events.empty():
            event = self._event("for requests")
            if isinstance(event, Said):
                self._note_down(event)
            elif isinstance(event, Came):
                self._early.append(event)

    def do(self, batch: Batch, name: str, talk: Talk[Tensor]) -> Tensor:
        """Do a talk of the party here to its end; what it returned."""
        none: Record = lambda message: None  # noqa: E731
        found = self.finish(self.start(batch, {}, none), {name: cast(Talk[Tensor | None], talk)}, none)[name]
        assert found is not None
        return found

    def _give_up(self) -> None:
        for peer, since in self._gone.items():
            if (waited := time.monotonic() - since) > self.patience:
                raise RunError(f"{peer} has been missing for {waited:.0f} seconds: start it, and then this again.")

    def _watch(self, doing: str) -> None:
        if not self.idle:
            super()._watch(doing)


class Serving:
    """What both roles share: the folder, the links, the meeting."""

    def __init__(
        self,
        file: PartyFile,
        *,
        insecure: bool = False,
        device: str = "cpu",
        patience: float | None = None,
        log: Callable[[str], None] = print,
    ) -> None:
        self.file, self.run_, self.log = file, file.run, log
        self.trained = Trained.read(file, device)
        self._lock = locked(file.folder)
        identity = None if insecure else identity_of(file)
        self.book = book_of(self.trained)
        self.facts = {**self.run_.to_json(), "purpose": "predict"}  # a party that trains is refused, and told why
        name, label = file.party.name, self.run_.label_party
        peers = tuple(p for p in self.run_.parties if p != label) if file.is_label_party else (label,)
        digest = hashlib.sha256(self.run_.digest + b"predict").digest()
        self.post = Post(name, label, digest, peers, self.run_.parties, identity)
        path = self.trained.store.folder / "ledger.jsonl"
        self.ledger = Ledger(path, run=self.run_.digest.hex(), defences=self.facts["defences"])
        self.carrier = Attendant(
            self.post,
            patience=file.party.wait if patience is None else patience,
            log=lambda text: log(text.replace(", at most inf seconds", "")),
            ledger=self.ledger,
        )
        self.end: Hub | Dial | None = None

    def connect(self) -> None:
        """Listen, or dial."""
        party = self.file.party
        if self.file.is_label_party:
            hub = Hub(self.post, party.listen, self.facts, self.log)
            self.log(f"{party.name} listens at {party.listen.rpartition(':')[0]}:{hub.port}.")
            self.end = hub
        else:
            self.end = Dial(self.post, party.connect, self.facts, self.log)
            self.log(f"{party.name} dials {party.connect}.")

    def close(self) -> None:
        """Hang up, and leave the folder to others."""
        if self.end is not None:
            self.end.close()
        self.ledger.close()
        os.close(self._lock)

    def begin(self, count: int) -> Session:
        """The party anew, and a session whose steps no session had before: some masks are drawn by step."""
        store = self.trained.store
        if not self.count < count < 1 << 30:
            raise ProtocolError(f"Expected {self.run_.label_party} to begin beyond meeting {self.count}, got {count}.")
        store.write(store.folder / COUNTED, str(count).encode())
        party = self.trained.party(None if self.book is None else self.book.features)
        self.numbered: Numbered | None = None
        if party.features is not None:
            self.numbered = Numbered(party.features, self.trained.plan.device)
            party.features = cast(Tensor, self.numbered)
        session = Session(
            {party.name: party},
            seed=self.trained.plan.seed,
            record=lambda message: None,
            device=self.trained.plan.device,
            carry=self.carrier,
        )
        session.step = count << 32
        return session

    @property
    def count(self) -> int:
        """How often this party has met to serve."""
        path = self.trained.store.folder / COUNTED
        text = path.read_text() if path.exists() else "0"
        if not text.isdecimal():
            raise RunError(f"Expected a number in {path}, got something else: restore it, masks must not repeat.")
        return int(text)

    def say_why(self, error: CutlayerError) -> None:
        """Tell the others that this process ends, unless one is missing or knows already."""
        if not isinstance(error, RunError | Stopped):
            self.carrier.stop(error)


class Answering(Serving):
    """A feature party: answers for as long as it is asked."""

    def run(self, *, forever: bool = False) -> dict[str, Any]:
        """Answer until the label party is done; for ever, wait for the next one. What was answered."""
        self.asked = self.known = self.batches = 0
        self.connect()
        try:
            with using_threads(1):
                while True:
                    try:
                        self._serve(self._meet(), forever)
                        return {"asked": self.asked, "known": self.known, "batches": self.batches}
                    except Regroup:
                        self.log("A party started again: beginning anew.")
                    except Stopped as error:
                        if not forever:
                            raise
                        self.log(str(error))
        except CutlayerError as error:
            self.say_why(error)
            raise
        finally:
            self.close()

    def _meet(self) -> Session:
        post, carrier, leader = self.post, self.carrier, self.run_.label_party
        carrier.idle = True
        carrier.wait_joined([leader])
        called = carrier.note("regroup", [leader], generation=post.generation + 1)[leader]
        carrier.begin(called.generation)
        shape = self.trained.shapes[self.file.party.name]
        post.allow({leader: shape}, MOST)
        post.tell(leader, "state", trained=self.trained.trained, shape=list(shape), count=self.count)
        count = carrier.note("begin", [leader])[leader].facts.get("count")
        return self.begin(count if type(count) is int else 0)

    def _serve(self, session: Session, forever: bool) -> None:
        leader, name = self.run_.label_party, self.file.party.name
        assert self.book is not None and self.numbered is not None
        while True:
            self.carrier.idle = True
            said = self.carrier.either(("ask", "end"), leader)
            if said.topic == "end":
                if not forever:
                    self.carrier.leave(leader)
                    return
                continue
            self.carrier.idle = False
            batch = Batch(session.step, Phase.PREDICT, torch.empty(0, dtype=torch.int64))
            talk = answer(name, leader, batch, bool(said.facts.get("new")), self.book, self.numbered)
            rows = self.carrier.do(batch, name, talk)
            session.step += 1
            self.batches, self.asked = self.batches + 1, self.numbered.count
            self.known += len(rows)
            if len(rows):
                session.take_part(rows)
