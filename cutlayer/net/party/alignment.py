"""Alignment: the parties find the rows that all of them have, or take up what they found before.

The label party leads. It calls everyone together (`regroup`), learns where each stands (`state`), and has rows aligned
if some party has no alignment or another one (`align`, `aligned`).
"""

import hashlib
import secrets
from collections.abc import Callable, Mapping
from functools import cached_property

import torch
from torch import Tensor

from cutlayer.align.psi import follow, lead
from cutlayer.errors import ProtocolError
from cutlayer.message import Batch, Message, Phase
from cutlayer.net.party.connection import Connection
from cutlayer.net.party.own_data import FEWEST, DataSource, TooFewRows
from cutlayer.net.peers.events import Topic

NO_IDS = "dataset"  # the rows of a dataset are in order


class AlreadyFinished(Exception):
    """The label party says that everyone had finished before this process began."""


class Alignment:
    """One party's side of aligning."""

    def __init__(self, connection: Connection, source: DataSource, record: Callable[[Message], None]) -> None:
        self.connection, self.source, self.record = connection, source, record
        self._mailbox, self._inbox, self._folder = connection.mailbox, connection.inbox, connection.folder

    def agree(self) -> None:
        """Meet, and return when this party has the alignment that all have."""
        if self._mailbox.leads:
            self.lead()
        else:
            self.follow()

    @property
    def name(self) -> str | None:
        """The name of the alignment that this party has, if it has one of its ids."""
        return NO_IDS if self.source.ids is None else self._folder.alignment(self._fingerprint)

    def lead(self) -> list[set[int]]:
        """Call everyone together and align if needed; the steps of each party's checkpoints, none after aligning."""
        mailbox, inbox = self._mailbox, self._inbox
        inbox.wait_connected(mailbox.peers)
        self._folder.write_json("manifest", self.connection.run.to_json())  # by now all have agreed on it
        inbox.begin_meeting(mailbox.generation + 1)
        mailbox.send_note_to_all(Topic.REGROUP)
        states = {peer: note.facts for peer, note in inbox.wait_notes(Topic.STATE, mailbox.peers).items()}
        name = self.name
        if name is not None and all(state.get("aligned") == name for state in states.values()):
            mailbox.send_note_to_all(Topic.ALIGNED, id=name)
            return [set(self._folder.steps()), *(_steps(states[peer], peer) for peer in mailbox.peers)]
        mailbox.send_note_to_all(Topic.ALIGN, id=name)
        rows = self._intersect()
        name = secrets.token_hex(8)
        self._keep(name, rows)
        mailbox.send_note_to_all(Topic.ALIGNED, id=name)
        return []

    def follow(self) -> None:
        """Come when called, say where this party stands, and align if told to."""
        mailbox, inbox, leader = self._mailbox, self._inbox, self.connection.label_party
        inbox.wait_connected([leader])
        self._folder.write_json("manifest", self.connection.run.to_json())
        call = inbox.wait_note((Topic.REGROUP, Topic.DONE), leader, generation=mailbox.generation + 1)
        inbox.begin_meeting(call.generation)
        if call.topic == Topic.DONE:
            raise AlreadyFinished
        mailbox.send_note(leader, Topic.STATE, steps=self._folder.steps(), aligned=self.name)
        if inbox.wait_note((Topic.ALIGN, Topic.ALIGNED), leader).topic == Topic.ALIGN:
            rows = self._intersect()
            note = inbox.wait_note((Topic.ALIGNED,), leader)
            self._keep(str(note.facts.get("id")), rows)

    def refuse_few(self) -> None:
        """Refuse to train on too few common rows; what cannot be trained on does not tie the folder to a run.

        Every party checks this before it waits for another.
        """
        if self.source.ids is not None and (rows := len(self._folder.rows())) < FEWEST:
            self._folder.forget_alignment()
            raise TooFewRows(rows)

    def _intersect(self) -> Tensor:
        """Run the private set intersection; this party's row numbers in the common order."""
        ids, run, name = self.source.ids, self.connection.run, self.connection.name
        if ids is None:
            return torch.empty(0, dtype=torch.int64)
        self.connection.log(
            f"Aligning {len(ids)} ids ({ids.empty} rows without one, {ids.repeated} repeated are left out)."
        )
        batch = Batch(0, Phase.ALIGN, torch.empty(0, dtype=torch.int64))
        salt = run.salt.encode()
        self._folder.forget()
        if self._mailbox.leads:
            talk = lead(ids, run.roster, batch, salt=salt, seed=run.seed)
        else:
            talk = follow(name, ids, run.roster, batch, salt=salt)
        return self.connection.carrier.run(batch, talk, self.record)

    def _keep(self, name: str, rows: Tensor) -> None:
        if self.source.ids is not None:
            self._folder.keep_alignment(name, rows, self._fingerprint)
        self.connection.log(f"{len(rows)} rows are common to all parties.")

    @cached_property
    def _fingerprint(self) -> str:
        """Hash of this party's ids, row by row: with another table the rows of an alignment would be others."""
        ids = self.source.ids
        assert ids is not None
        total = hashlib.sha256(ids.rows.tobytes())
        for value in ids.values:
            total.update(len(value).to_bytes(4, "little") + value)
        return total.hexdigest()


def _steps(state: Mapping[str, object], peer: str) -> set[int]:
    steps = state.get("steps")
    if not isinstance(steps, list) or not all(type(step) is int for step in steps):
        raise ProtocolError(f"Expected the steps of checkpoints from {peer}, got something else.")
    return set(steps)
