"""Meeting: before the first batch, and after every fault, the parties agree on where to go on.

The label party leads. Once all have one alignment, it says what everyone must know (`facts`), learns the shapes of
embeddings (`shape`) and names the last step of which everyone has a checkpoint (`begin`). Every meeting has a number,
and what is left over from an earlier one is dropped.
"""

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from cutlayer.cut import Shape
from cutlayer.errors import ProtocolError
from cutlayer.message import Message
from cutlayer.net.party.alignment import Alignment
from cutlayer.net.party.connection import Connection
from cutlayer.net.party.own_data import AlignedData, DataSource
from cutlayer.net.peers.events import Topic
from cutlayer.party import FeatureParty, LabelParty
from cutlayer.plan import Facts, Plan, feature_party, label_party, part_of, training_labels
from cutlayer.session import PREDICTION_ROWS


@dataclass(frozen=True)
class StartingPoint:
    """What a meeting agreed on: the party that is here, its rows, and the step to go on from."""

    party: FeatureParty | LabelParty
    data: AlignedData
    step: int
    classes: int
    shapes: Mapping[str, Shape]  # of one row of the embeddings that this party knows of
    training: str  # drawn at every meeting: parties whose runs end with the same one trained together


class Meeting:
    """One party's side of every meeting of a run."""

    def __init__(
        self, connection: Connection, source: DataSource, plan: Plan, record: Callable[[Message], None]
    ) -> None:
        self.connection, self.source, self.plan = connection, source, plan
        self.alignment = Alignment(connection, source, record)
        self._mailbox, self._inbox = connection.mailbox, connection.inbox
        self._rows_limit = max(connection.run.batch_size + 1, PREDICTION_ROWS)

    def agree(self) -> StartingPoint:
        """Meet, and return where to go on."""
        return self._lead() if self._mailbox.leads else self._follow()

    def _lead(self) -> StartingPoint:
        mailbox, inbox, name = self._mailbox, self._inbox, self.connection.name
        steps = self.alignment.lead()
        self.alignment.refuse_few()
        data = self._select()
        facts = self.connection.run.facts(len(data.classes))
        mailbox.send_note_to_all(Topic.FACTS, classes=facts.classes)
        part = None if data.features is None else part_of(name, data.features, facts, self.plan)
        notes = inbox.wait_notes(Topic.SHAPE, mailbox.peers)
        shapes = {peer: _shape(note.facts.get("shape"), peer) for peer, note in notes.items()}
        mailbox.allow(shapes, self._rows_limit)
        shapes |= {} if part is None else {name: part.shape}
        assert data.labels is not None and data.goal is not None
        labels = training_labels(data.labels, data.goal, data.train)
        party = label_party(labels, part, shapes, facts, self.plan)
        step = max(set.intersection(*steps), default=0) if steps else 0
        training = secrets.token_hex(8)
        mailbox.send_note_to_all(Topic.BEGIN, step=step, trained=training)
        return StartingPoint(party, data, step, facts.classes, shapes, training)

    def _follow(self) -> StartingPoint:
        mailbox, inbox, leader = self._mailbox, self._inbox, self.connection.label_party
        name = self.connection.name
        self.alignment.follow()
        self.alignment.refuse_few()
        facts = self._facts(inbox.wait_note((Topic.FACTS,), leader).facts)
        data = self._select()
        assert data.features is not None
        part = part_of(name, data.features, facts, self.plan)
        mailbox.allow({leader: part.shape}, self._rows_limit)
        party = feature_party(name, part, facts, self.plan)
        mailbox.send_note(leader, Topic.SHAPE, shape=list(part.shape))
        begin = inbox.wait_note((Topic.BEGIN,), leader).facts
        step, training = begin.get("step"), str(begin.get("trained"))
        if type(step) is not int or (step and step not in self.connection.folder.steps()):
            raise ProtocolError(f"Expected {leader} to name a step of which there is a checkpoint, got {step!r}.")
        return StartingPoint(party, data, step, facts.classes, {name: part.shape}, training)

    def _select(self) -> AlignedData:
        """This party's columns and labels of the common rows."""
        notes: list[str] = []
        data = self.source.select(self.connection.folder.rows(), notes)
        for note in notes:
            self.connection.log(note)
        return data

    def _facts(self, received: Mapping[str, object]) -> Facts:
        """What every party knows, as the label party says it."""
        classes = received.get("classes")
        if not isinstance(classes, int) or not 0 <= classes <= 100_000:
            raise ProtocolError(f"Expected a number of classes from {self.connection.label_party}, got another thing.")
        return self.connection.run.facts(classes)


def _shape(value: object, peer: str) -> tuple[int, ...]:
    """The shape of one row of a peer's embedding, checked."""
    shape = value if isinstance(value, list) else []
    if not 1 <= len(shape) <= 4 or not all(type(size) is int and 0 < size <= 1 << 20 for size in shape):
        raise ProtocolError(f"Expected the shape of an embedding from {peer}, got something else.")
    return tuple(shape)
