"""Label side: the label party's part in joint prediction. It numbers ids, asks the others, and gets the answers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from cutlayer.cut import Shape
from cutlayer.errors import ProtocolError, RunError
from cutlayer.message import Phase
from cutlayer.net.party.connection import Connection
from cutlayer.net.peers.events import Topic
from cutlayer.net.predict.row_index import tag
from cutlayer.net.predict.row_request import ID_LIMIT, ask, request_batch
from cutlayer.net.predict.saved_party import PredictionSession, SavedParty

REMEMBERED = 1 << 20  # ids; beyond that, numbers start from zero again


@dataclass(frozen=True, slots=True)
class Answer:
    """The result for one id: the outputs of the top, or the parties that do not have it."""

    outputs: Tensor | None
    missing: tuple[str, ...] = ()
    flagged: bool = False  # a defence of the label party found what arrived odd


class Predictor:
    """Asks the feature parties, and predicts."""

    def __init__(self, connection: Connection, saved: SavedParty) -> None:
        self.connection, self.saved = connection, saved
        self.run, self.log = connection.run, connection.log
        self._numbers: dict[bytes, int] = {}  # by tag
        self._lacking: dict[int, tuple[str, ...]] = {}  # the parties that lack an id, by its number

    def meet(self) -> None:
        """Wait for all parties, and begin with them."""
        mailbox, inbox, peers = self.connection.mailbox, self.connection.inbox, self.connection.mailbox.peers
        inbox.wait_connected(peers)
        inbox.begin_meeting(mailbox.generation + 1)
        mailbox.send_note_to_all(Topic.REGROUP)
        shapes = {name: shape for name, shape in self.saved.run.shapes.items() if name in peers}
        mailbox.allow(shapes, ID_LIMIT)
        states = {peer: note.facts for peer, note in inbox.wait_notes(Topic.STATE, peers).items()}
        counts = [self.saved.meetings, *(self._meetings(states[peer], peer, shapes[peer]) for peer in peers)]
        self.prediction: PredictionSession = self.saved.begin(max(counts) + 1, self.connection.carrier)
        self._numbers, self._lacking = {}, {}
        mailbox.send_note_to_all(Topic.BEGIN, count=max(counts) + 1)

    def predict(self, ids: Sequence[bytes]) -> list[Answer]:
        """Answers for at most `ID_LIMIT` normalised ids, in their order; Regroup if a party is a new process."""
        tags = [tag(id_, self.run) if id_ else b"" for id_ in ids]
        if len(self._numbers) + len(tags) > REMEMBERED:
            self.meet()
        own = None if self.saved.index is None else self.saved.index.rows
        known = list(dict.fromkeys(tag_ for tag_ in tags if tag_ and (own is None or tag_ in own)))
        rows = self._request(known) if known else []
        outputs: dict[int, Tensor] = {}
        odd: set[int] = set()
        if rows:
            (batch_outputs,) = self.prediction.session.take_part(torch.tensor(rows))
            outputs = dict(zip(rows, batch_outputs.cpu(), strict=True))
            odd = self._take_flags()
        return [self._answer(self._numbers.get(tag_), outputs, odd) for tag_ in tags]

    def _request(self, tags: Sequence[bytes]) -> list[int]:
        """Number the tags that are new and ask who lacks them; the numbers of those that all have."""
        session, mailbox = self.prediction.session, self.connection.mailbox
        new = [tag_ for tag_ in tags if tag_ not in self._numbers]
        first = len(self._numbers)
        self._numbers |= {tag_: first + place for place, tag_ in enumerate(new)}
        if self.saved.index is not None:
            self.prediction.numbers.add([self.saved.index.rows[tag_] for tag_ in new])

        def choose(answers: Tensor) -> list[int]:
            for place, known in enumerate(answers.T.tolist() if new else []):
                lacking = (peer for peer, has in zip(mailbox.peers, known, strict=True) if not has)
                self._lacking[first + place] = tuple(lacking)
            return [number for tag_ in tags if not self._lacking[number := self._numbers[tag_]]]

        mailbox.send_note_to_all(Topic.ASK, new=len(new))
        batch = request_batch(session.step)
        talk = ask(self.connection.name, mailbox.peers, batch, new, choose)
        rows: list[int] = self.connection.carrier.run(batch, talk).tolist()
        session.step += 1
        return rows

    def _answer(self, number: int | None, outputs: dict[int, Tensor], odd: set[int]) -> Answer:
        if number is None:
            return Answer(None, (self.connection.name,))
        if number not in outputs:
            return Answer(None, self._lacking[number])
        return Answer(outputs[number], (), number in odd)

    def _take_flags(self) -> set[int]:
        """Rows that a defence found odd; they are forgotten at once, since they would pile up."""
        flags = self.prediction.session.label_party.flags
        flagged, flags[Phase.PREDICT] = flags[Phase.PREDICT], []
        return {row for rows in flagged for row in rows.tolist()}

    def finish(self) -> None:
        """Tell the others that there is nothing more to ask."""
        mailbox, presence = self.connection.mailbox, self.connection.inbox.presence
        for peer in mailbox.peers:
            presence.excuse(peer)
            mailbox.send_note(peer, Topic.END)
        mailbox.wait_confirmed(mailbox.peers, 5.0)

    def missing(self) -> list[str]:
        """The parties that are not connected now."""
        links = self.connection.mailbox.links
        return [peer for peer, link in links.items() if not link.is_open]

    def _meetings(self, state: Mapping[str, object], peer: str, shape: Shape) -> int:
        """How often a peer has met, if it trained with us; otherwise it is told so."""
        mailbox = self.connection.mailbox
        if state.get("trained") != self.saved.run.training:
            mailbox.send_note(peer, Topic.STOPPED, why="models of another training: train together again.")
            mailbox.wait_confirmed([peer], 2.0)
            raise RunError(f"Expected models of the same training from {peer}, got others: train together again.")
        count = state.get("count")
        if type(count) is not int or not 0 <= count < 1 << 30 or state.get("shape") != list(shape):
            raise ProtocolError(f"Expected {peer} to say where it stands, got something else.")
        return count
