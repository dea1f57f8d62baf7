"""Session: the one loop. It carries messages between parties, in training and in prediction."""

from collections import deque
from collections.abc import Callable, Iterator, Mapping

import torch
from torch import Tensor

from cutlayer.errors import ProtocolError
from cutlayer.message import Batch, Message, Phase, Talk
from cutlayer.party import FeatureParty, LabelParty
from cutlayer.rng import generator

PREDICTION_ROWS = 4096


Result = dict[str, Tensor | None]
Talks = Mapping[str, Talk[Tensor | None]]
#: What carries the messages of a batch: given the talks of the parties that are here, return what they returned.
Carry = Callable[[Batch, Talks, Callable[[Message], None]], Result]


def exchange(talks: Talks, record: Callable[[Message], None]) -> Result:
    """Carry messages between the parties until every one has finished its part; return what they returned.

    This is all that a transport does: it knows neither cuts, nor defences, nor how many messages a
    protocol needs.
    """
    results: Result = {}
    post: deque[Message] = deque()

    def resume(name: str, message: Message | None) -> None:
        try:
            sent = talks[name].send(message)
            while sent is not None:
                if sent.sender == sent.receiver:
                    record(sent)
                else:
                    post.append(sent)
                sent = next(talks[name])
        except StopIteration as end:
            results[name] = end.value

    for name in talks:
        resume(name, None)
    while post:
        message = post.popleft()
        if message.receiver in results or message.receiver not in talks:
            raise ProtocolError(f"{message.sender} sent to {message.receiver}, who expects nothing more.")
        record(message)
        resume(message.receiver, message)
    if waiting := sorted(set(talks) - set(results)):
        raise ProtocolError(f"Still waiting for messages that nobody sends: {', '.join(waiting)}.")
    return results


def in_process(batch: Batch, talks: Talks, record: Callable[[Message], None]) -> Result:
    """Carry a batch's messages between parties that are all here."""
    return exchange(talks, record)


def batches(rows: Tensor, size: int) -> Iterator[Tensor]:
    """Cut rows into batches. A last batch of one row joins the one before: batch norm needs two."""
    parts = list(rows.split(size))
    if len(parts) > 1 and len(parts[-1]) == 1:
        parts[-2:] = [torch.cat(parts[-2:])]
    return iter(parts)


class Session:
    """The parties of one run that live in this process, and what they do together with those elsewhere.

    In a simulation all parties are here and `in_process` carries their messages; in a deployment one is,
    and `carry` is a network that does the same.
    """

    def __init__(
        self,
        parties: Mapping[str, FeatureParty | LabelParty],
        *,
        seed: int,
        record: Callable[[Message], None],
        device: str | torch.device = "cpu",
        carry: Carry = in_process,
    ) -> None:
        self.parties = dict(parties)
        self.seed = seed
        self.record = record
        self.device = device
        self.carry = carry
        self.step = 0
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
            self.losses += self._together(Batch(self.step, Phase.TRAIN, part), self.record)
            on_step()
        if not self.losses:
            return float("nan")  # the label party, elsewhere, knows
        sizes = torch.tensor([len(part) for part in parts]).double()
        return float(torch.stack(self.losses).cpu().double() @ sizes) / len(rows)

    def predict(self, rows: Tensor, record: Callable[[Message], None] | None = None) -> Tensor:
        """Joint inference: the label party's outputs for these rows, defences active as in training."""
        return torch.cat(self.take_part(rows, record)).cpu()

    def take_part(self, rows: Tensor, record: Callable[[Message], None] | None = None) -> list[Tensor]:
        """Do one's part of a joint inference; what the label party has to say, if it is here, batch by batch."""
        for party in self.parties.values():
            party.set_phase(Phase.PREDICT)
        outputs = []
        for part in rows.to(self.device).split(PREDICTION_ROWS):
            outputs += self._together(Batch(self.step, Phase.PREDICT, part), record or self.record)
        return outputs

    def _together(self, batch: Batch, record: Callable[[Message], None]) -> list[Tensor]:
        """Do one batch; the label party's result, a loss in training and outputs in prediction, if it is here."""
        self.step += 1
        results = self.carry(batch, {name: party.talk(batch) for name, party in self.parties.items()}, record)
        return [result for result in results.values() if result is not None]
