"""Meeting: before the first batch, and after every fault, the parties agree on where to go on.

The label party leads. It calls all parties together (`regroup`), hears where each stands (`state`), has rows aligned
if some party has no alignment or another one (`align`, `aligned`), says what all must know (`facts`), hears the
shapes of embeddings (`shape`) and names the last step of which everybody has a checkpoint (`begin`). Every meeting has
a number, and what is left over from an earlier one is dropped.
"""

import hashlib
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from cutlayer.align.psi import follow, lead
from cutlayer.cut import Shape
from cutlayer.errors import ProtocolError
from cutlayer.message import Batch, Message, Phase
from cutlayer.net.party.own_data import FEWEST, Holding, Source, TooFew
from cutlayer.net.party.party_file import PartyFile
from cutlayer.net.party.store import Store
from cutlayer.net.peers.carrier import Carrier
from cutlayer.party import FeatureParty, LabelParty
from cutlayer.plan import Facts, Part, Plan, feature_party, label_party, part_of, training_labels
from cutlayer.session import PREDICTION_ROWS

NO_IDS = "dataset"  # the rows of a dataset are in order


class Finished(Exception):
    """The label party says that the run is finished: all had saved their models before this process began."""


@dataclass(frozen=True)
class Place:
    """Where the parties stand after a meeting: the party that is here, its rows, and the step to go on from."""

    party: FeatureParty | LabelParty
    holding: Holding
    step: int
    classes: int
    shapes: Mapping[str, Shape]  # of one row of the embeddings that this party knows of
    trained: str  # drawn at every meeting: parties whose runs end with the same one trained together


class Meeting:
    """One party's side of every meeting of a run."""

    def __init__(
        self,
        file: PartyFile,
        source: Source,
        plan: Plan,
        carrier: Carrier,
        store: Store,
        log: Callable[[str], None],
        record: Callable[[Message], None],
    ) -> None:
        self.file, self.source, self.plan = file, source, plan
        self.carrier, self.store, self.log, self.record = carrier, store, log, record
        self.post = carrier.post
        self.name = file.party.name

    def hold(self) -> Place:
        """Meet, and return where to go on."""
        return self._lead() if self.file.is_label_party else self._follow()

    def align(self) -> None:
        """Meet, and part when this party has the alignment that all have."""
        if self.file.is_label_party:
            self._lead_alignment()
        else:
            self._follow_alignment()

    @property
    def is_aligned(self) -> bool:
        """Whether this party has an alignment of its ids."""
        return self._aligned() is not None

    def _lead_alignment(self) -> list[set[int]]:
        """Call all together, align if need be; the steps from which each can go on."""
        post, carrier, peers = self.post, self.carrier, self.post.peers
        carrier.wait_joined(peers)
        self.store.keep_json("manifest", self.file.run.to_json())  # by now all have agreed on it
        carrier.begin(post.generation + 1)
        self._tell_all("regroup")
        states = {peer: said.facts for peer, said in carrier.note("state", peers).items()}
        aligned = self._aligned()
        again = aligned is None or any(state.get("aligned") != aligned for state in states.values())
        self._tell_all("align" if again else "aligned", id=aligned)
        if again:
            rows = self._align()
            aligned = secrets.token_hex(8)
            self._keep_alignment(aligned, rows)
            self._tell_all("aligned", id=aligned)
            self.log(f"{len(rows)} rows are common to all parties.")
            return []
        return [set(self.store.steps()), *(_steps(states[peer], peer) for peer in peers)]

    def _lead(self) -> Place:
        post, carrier, peers = self.post, self.carrier, self.post.peers
        steps = self._lead_alignment()
        self._refuse_few()
        holding, facts = self._settle(None)
        self._tell_all("facts", classes=facts.classes)
        part = None if holding.features is None else part_of(self.name, holding.features, facts, self.plan)
        shapes = {peer: _shape(said.facts.get("shape"), peer) for peer, said in carrier.note("shape", peers).items()}
        post.allow(shapes, self._rows())
        shapes |= {} if part is None else {self.name: part.shape}
        assert holding.labels is not None and holding.goal is not None
        labels = training_labels(holding.labels, holding.goal, holding.train)
        party = label_party(labels, part, shapes, facts, self.plan)
        step = max(set.intersection(*steps), default=0) if steps else 0
        trained = secrets.token_hex(8)
        self._tell_all("begin", step=step, trained=trained)
        return Place(party, holding, step, facts.classes, shapes, trained)

    def _follow_alignment(self) -> None:
        """Come when called, say where this party stands, align if told to."""
        post, carrier, leader = self.post, self.carrier, self.file.run.label_party
        carrier.wait_joined([leader])
        self.store.keep_json("manifest", self.file.run.to_json())
        called = carrier.either(("regroup", "done"), leader, generation=post.generation + 1)
        carrier.begin(called.generation)
        if called.topic == "done":
            raise Finished
        post.tell(leader, "state", steps=self.store.steps(), aligned=self._aligned())
        if carrier.either(("align", "aligned"), leader).topic == "align":
            rows = self._align()
            said = carrier.note("aligned", [leader])[leader]
            self._keep_alignment(str(said.facts.get("id")), rows)
            self.log(f"{len(rows)} rows are common to all parties.")

    def _follow(self) -> Place:
        post, carrier, leader = self.post, self.carrier, self.file.run.label_party
        self._follow_alignment()
        self._refuse_few()
        holding, facts = self._settle(carrier.note("facts", [leader])[leader].facts)
        assert holding.features is not None
        part: Part = part_of(self.name, holding.features, facts, self.plan)
        post.allow({leader: part.shape}, self._rows())
        party = feature_party(self.name, part, facts, self.plan)
        post.tell(leader, "shape", shape=list(part.shape))
        begun = carrier.note("begin", [leader])[leader].facts
        step, trained = begun.get("step"), str(begun.get("trained"))
        if type(step) is not int or (step and step not in self.store.steps()):
            raise ProtocolError(f"Expected {leader} to name a step of which there is a checkpoint, got {step!r}.")
        return Place(party, holding, step, facts.classes, {self.name: part.shape}, trained)

    def _tell_all(self, topic: str, **facts: Any) -> None:
        for peer in self.post.peers:
            self.post.tell(peer, topic, **facts)

    def _align(self) -> Tensor:
        """Run the private set intersection; this party's row numbers in the common order."""
        ids, run = self.source.ids, self.file.run
        if ids is None:
            return torch.empty(0, dtype=torch.int64)
        self.log(f"Aligning {len(ids)} ids ({ids.empty} rows without one, {ids.repeated} repeated are left out).")
        batch = Batch(0, Phase.ALIGN, torch.empty(0, dtype=torch.int64))
        salt = run.salt.encode()
        self.store.forget()
        if self.file.is_label_party:
            talk = lead(ids, run.roster, batch, salt=salt, seed=run.seed)
        else:
            talk = follow(self.name, ids, run.roster, batch, salt=salt)
        rows = self.carrier.finish(self.carrier.start(batch, {}, self.record), {self.name: talk}, self.record)[
            self.name
        ]
        assert rows is not None
        return rows

    def _settle(self, told: Any) -> tuple[Holding, Facts]:
        """This party's columns and labels of the common rows, and what every party knows."""
        notes: list[str] = []
        holding = self.source.settle(self.store.rows(), notes)
        for note in notes:
            self.log(note)
        classes = len(holding.classes) if told is None else told.get("classes")
        if not isinstance(classes, int) or not 0 <= classes <= 100_000:
            raise ProtocolError(f"Expected a number of classes from {self.file.run.label_party}, got another thing.")
        return holding, self.file.run.facts(classes)

    def _refuse_few(self) -> None:
        """Every party looks before it waits for another. What cannot be trained on does not tie the folder to a run."""
        if self.source.ids is not None and (rows := len(self.store.rows())) < FEWEST:
            self.store.forget_alignment()
            raise TooFew(rows)

    def _aligned(self) -> str | None:
        """The alignment that this party has, if any."""
        return NO_IDS if self.source.ids is None else self.store.alignment(self._fingerprint)

    def _keep_alignment(self, name: str, rows: Tensor) -> None:
        if self.source.ids is not None:
            self.store.keep_alignment(name, rows, self._fingerprint)

    @cached_property
    def _fingerprint(self) -> str:
        """Hash of this party's ids, row by row: with another table the rows of an alignment would be others."""
        ids = self.source.ids
        assert ids is not None
        total = hashlib.sha256(ids.rows.tobytes())
        for value in ids.values:
            total.update(len(value).to_bytes(4, "little") + value)
        return total.hexdigest()

    def _rows(self) -> int:
        return max(self.file.run.batch_size + 1, PREDICTION_ROWS)


def _shape(said: Any, peer: str) -> tuple[int, ...]:
    """The shape of one row of a peer's embedding, if it is one."""
    fits = (
        isinstance(said, list) and 1 <= len(said) <= 4 and all(type(one) is int and 0 < one <= 1 << 20 for one in said)
    )
    if not fits:
        raise ProtocolError(f"Expected the shape of an embedding from {peer}, got something else.")
    return tuple(said)


def _steps(state: Any, peer: str) -> set[int]:
    steps = state.get("steps")
    if not isinstance(steps, list) or not all(type(step) is int for step in steps):
        raise ProtocolError(f"Expected the steps of checkpoints from {peer}, got something else.")
    return set(steps)
