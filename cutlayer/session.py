"""Session: the one loop. It carries messages between parties, in training and in prediction."""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor

from cutlayer.errors import ProtocolError
from cutlayer.message import Batch, Message, Phase, Talk
from cutlayer.party import FeatureParty, LabelParty
from cutlayer.rng import generator

PREDICTION_ROWS = 4096


Result = dict[str, Tensor | None]
Talks = Mapping[str, Talk[Tensor | None]]
Record = Callable[[Message], None]


@dataclass(eq=False, slots=True)
class Opened:
    """Talks that have begun: messages on their way, and the results of those that have ended."""

    batch: Batch | None
    talks: dict[str, Talk[Tensor | None]]
    outgoing: deque[Message] = field(default_factory=deque)
    results: Result = field(default_factory=dict)

    def resume(self, name: str, message: Message | None, record: Record) -> None:
        """Hand a party a message, and take what it sends until it waits again."""
        try:
            sent = self.talks[name].send(message)
            while sent is not None:
                if sent.sender == sent.receiver:
                    record(sent)
                else:
                    self.outgoing.append(sent)
                sent = next(self.talks[name])
        except StopIteration as end:
            self.results[name] = end.value


class InProcess:
    """Carries messages between parties that are all here.

    This is all that a transport does: it knows neither cuts, nor defences, nor how many messages a
    protocol needs. A network has the same two methods (net/peers/carrier.py).
    """

    def start(self, batch: Batch | None, talks: Talks, record: Record) -> Opened:
        """Begin talks, up to where they wait."""
        opened = Opened(batch, dict(talks))
        for name in talks:
            opened.resume(name, None, record)
        return opened

    def finish(self, opened: Opened, talks: Talks, record: Record) -> Result:
        """Begin further talks and carry messages until every party has finished its part."""
        opened.talks |= talks
        for name in talks:
            opened.resume(name, None, record)
        while opened.outgoing:
            message = opened.outgoing.popleft()
            if message.receiver in opened.results or message.receiver not in opened.talks:
                raise ProtocolError(f"{message.sender} sent to {message.receiver}, who expects nothing more.")
            record(message)
            opened.resume(message.receiver, message, record)
        if waiting := sorted(set(opened.talks) - set(opened.results)):
            raise ProtocolError(f"Still waiting for messages that nobody sends: {', '.join(waiting)}.")
        return opened.results


class Carry(Protocol):
    """What carries the messages of a batch."""

    def start(self, batch: Batch | None, talks: Talks, record: Record) -> Opened:
        """Begin the talks of parties that are here, up to where they wait."""
        ...

    def finish(self, opened: Opened, talks: Talks, record: Record) -> Result:
        """Begin further talks and carry messages until all parties that are here have finished."""
        ...


def exchange(talks: Talks, record: Record) -> Result:
    """Carry messages between parties that are all here until every one has finished; what they returned."""
    carry = InProcess()
    return carry.finish(carry.start(None, {}, record), talks, record)


def batches(rows: Tensor, size: int) -> Iterator[Tensor]:
    """Cut rows into batches. A last batch of one row joins the one before: batch norm needs two."""
    parts = list(rows.split(size))
    if len(parts) > 1 and len(parts[-1]) == 1:
        parts[-2:] = [torch.cat(parts[-2:])]
    return iter(parts)


class Session:
    """The parties of one run that live in this process, and what they do together with those elsewhere.

    In a simulation all parties are here and `InProcess` carries their messages; in a deployment one is,
    and `carry` is a network that does the same. With `lookahead` a feature party begins this many batches before
    the gradients of earlier ones are back (bounded staleness: it hides the time that messages travel, and trains
    on gradients of slightly older weights); every `rest` steps all that is under way is finished.
    """

    def __init__(
        self,
        parties: Mapping[str, FeatureParty | LabelParty],
        *,
        seed: int,
        record: Record,
        device: str | torch.device = "cpu",
        carry: Carry | None = None,
        lookahead: int = 0,
        rest: int | None = None,
    ) -> None:
        self.parties = dict(parties)
        self.seed = seed
        self.record = record
        self.device = device
        self.carry = carry or InProcess()
        self.lookahead = lookahead
        self.rest = rest
        self.step = 0
        self._under_way: deque[Opened] = deque()
        self.losses: list[Tensor] = []  # of this epoch so far, where the label party is here

    @property
    def label_party(self) -> LabelParty:
        """The label party, which must be here."""
        return next(party for party in self.parties.values() if isinstance(party, LabelParty))

    def train_epoch(
        self, epoch: int, rows: Tensor, on_step: Callable[[], None] = lambda: None, *, done: int = 0
    ) -> float:
        """Train on all rows once, in an order that every party derives from the run's seed; mean loss.

        `done` batches of this epoch were trained on already, before an interruption.
        """
        if not done:
            self.losses = []
        for party in self.parties.values():
            party.begin_epoch(epoch)
            party.set_phase(Phase.TRAIN)
        order = rows[torch.randperm(len(rows), generator=generator(self.seed, "order", epoch))]
        parts = list(batches(order.to(self.device), party.recipe.batch_size))
        for part in parts[done:]:
            self.losses += self._together(Batch(self.step, Phase.TRAIN, part), self.record, self.lookahead)
            if self.rest and self.step % self.rest == 0:
                self.losses += self._finish(self.record, 0)
            on_step()
        self.losses += self._finish(self.record, 0)
        if not self.losses:
            return float("nan")  # the label party, elsewhere, knows
        sizes = torch.tensor([len(part) for part in parts]).double()
        return float(torch.stack(self.losses).cpu().double() @ sizes) / len(rows)

    def predict(self, rows: Tensor, record: Record | None = None) -> Tensor:
        """Joint inference: the label party's outputs for these rows, defences active as in training."""
        return torch.cat(self.take_part(rows, record)).cpu()

    def peek(self, rows: Tensor, record: Record) -> Tensor:
        """Predict as `predict` would, and leave streams and flags as they are: the next prediction knows nothing of it.

        Only the step goes on, as its number is never used twice: the masks of a secure cut depend on it.
        """
        parties = {name: party.replica() for name, party in self.parties.items()}
        session = Session(parties, seed=self.seed, record=record, device=self.device)
        session.step = self.step
        outputs = session.predict(rows)
        self.step = session.step
        return outputs

    def take_part(self, rows: Tensor, record: Record | None = None) -> list[Tensor]:
        """Predict jointly with parties elsewhere; the label party's outputs, if it is here, batch by batch."""
        for party in self.parties.values():
            party.set_phase(Phase.PREDICT)
        outputs = []
        for part in rows.to(self.device).split(PREDICTION_ROWS):
            outputs += self._together(Batch(self.step, Phase.PREDICT, part), record or self.record)
        return outputs

    def _together(self, batch: Batch, record: Record, ahead: int = 0) -> list[Tensor]:
        """Begin a batch, and finish all but the last `ahead` of them."""
        self.step += 1
        talks = {n: party.talk(batch) for n, party in self.parties.items() if not isinstance(party, LabelParty)}
        self._under_way.append(self.carry.start(batch, talks, record))
        return self._finish(record, ahead)

    def _finish(self, record: Record, ahead: int) -> list[Tensor]:
        """Finish batches, the oldest first; the label party's results, losses or outputs, if it is here."""
        results = []
        while len(self._under_way) > ahead:
            opened = self._under_way.popleft()
            assert opened.batch is not None
            label = {n: p.talk(opened.batch) for n, p in self.parties.items() if isinstance(p, LabelParty)}
            ended = self.carry.finish(opened, label, record)
            results += [result for result in ended.values() if result is not None]
        return results
