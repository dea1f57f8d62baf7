"""Asking: the label party's side of joint prediction. It numbers ids, asks the others, and has the answers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor

from cutlayer.cut import Shape
from cutlayer.errors import ProtocolError, RunError
from cutlayer.message import Batch, Phase
from cutlayer.net.predict.row_index import tag
from cutlayer.net.predict.serving import Serving
from cutlayer.net.predict.which_rows import MOST, ask

REMEMBERED = 1 << 20  # ids; beyond that, numbers start afresh


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of one id: the outputs of the top, or who does not have it."""

    outputs: Tensor | None
    missing: tuple[str, ...] = ()
    flagged: bool = False  # a defence of the label party found what arrived odd


class Asking(Serving):
    """The label party: asks, and has the answers."""

    def meet(self) -> None:
        """Wait for all parties, and begin with them."""
        post, carrier, peers = self.post, self.carrier, self.post.peers
        carrier.wait_joined(peers)
        carrier.begin(post.generation + 1)
        for peer in peers:
            post.tell(peer, "regroup")
        shapes = {name: shape for name, shape in self.trained.shapes.items() if name in peers}
        post.allow(shapes, MOST)
        states = {peer: said.facts for peer, said in carrier.note("state", peers).items()}
        counts = [self.count, *(self._count(states[peer], peer, shapes[peer]) for peer in peers)]
        self.session = self.begin(max(counts) + 1)
        self._numbers: dict[bytes, int] = {}
        self._lacking: dict[int, tuple[str, ...]] = {}
        for peer in peers:
            post.tell(peer, "begin", count=max(counts) + 1)

    def predict(self, ids: Sequence[bytes]) -> list[Answer]:
        """Answers for at most `MOST` spelt ids, in their order; Regroup if a party is a new process."""
        tags = [tag(one, self.run_) if one else b"" for one in ids]
        if len(self._numbers) + len(tags) > REMEMBERED:
            self.meet()
        own = None if self.book is None else self.book.places
        named = list(dict.fromkeys(one for one in tags if one and (own is None or one in own)))
        rows = self._name(named) if named else []
        outputs: dict[int, Tensor] = {}
        odd: set[int] = set()
        if rows:
            (made,) = self.session.take_part(torch.tensor(rows))
            outputs = dict(zip(rows, made.cpu(), strict=True))
            odd = {row for some in self._flags() for row in some.tolist()}
        return [self._answer(self._numbers.get(one), outputs, odd) for one in tags]

    def _name(self, tags: Sequence[bytes]) -> list[int]:
        """Number the tags that are new, hear who lacks them; the numbers of those that all have."""
        session, peers, name = self.session, self.post.peers, self.file.party.name
        new = [one for one in tags if one not in self._numbers]
        first = len(self._numbers)
        self._numbers |= {one: first + place for place, one in enumerate(new)}
        if self.book is not None and self.numbered is not None:
            self.numbered.add([self.book.places[one] for one in new])

        def rows(answers: Tensor) -> list[int]:
            for place, has in enumerate(answers.T.tolist() if len(new) else []):
                self._lacking[first + place] = tuple(p for p, one in zip(peers, has, strict=True) if not one)
            return [number for one in tags if not self._lacking[number := self._numbers[one]]]

        for peer in peers:
            self.post.tell(peer, "ask", new=len(new))
        batch = Batch(session.step, Phase.PREDICT, torch.empty(0, dtype=torch.int64))
        found = self.carrier.do(batch, name, ask(name, peers, batch, new, rows))
        session.step += 1
        return cast(list[int], found.tolist())

    def _answer(self, number: int | None, outputs: dict[int, Tensor], odd: set[int]) -> Answer:
        if number is None:
            return Answer(None, (self.file.party.name,))
        if number not in outputs:
            return Answer(None, self._lacking[number])
        return Answer(outputs[number], (), number in odd)

    def _flags(self) -> list[Tensor]:
        """Rows that a defence found odd; forgotten at once, or they would pile up."""
        flags = self.session.label_party.flags
        found, flags[Phase.PREDICT] = flags[Phase.PREDICT], []
        return found

    def finish(self) -> None:
        """Tell the others that there is nothing more to ask."""
        for peer in self.post.peers:
            self.carrier.leave(peer)
            self.post.tell(peer, "end")
        self.post.drain(self.post.peers, 5.0)

    def missing(self) -> list[str]:
        """The parties that are not connected now."""
        return [peer for peer in self.post.peers if not self.post.links[peer].is_open]

    def _count(self, state: Mapping[str, Any], peer: str, shape: Shape) -> int:
        """How often a peer has met, if it trained with us; else it is told so."""
        if state.get("trained") != self.trained.trained:
            self.post.tell(peer, "stopped", why="models of another training: train together again.")
            self.post.drain([peer], 2.0)
            raise RunError(f"Expected models of the same training from {peer}, got others: train together again.")
        count = state.get("count")
        if type(count) is not int or not 0 <= count < 1 << 30 or state.get("shape") != list(shape):
            raise ProtocolError(f"Expected {peer} to say where it stands, got something else.")
        return count
