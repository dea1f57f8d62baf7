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


def exchange(talks: Mapping[str, Talk[Tensor | None]], record: Callable[[Message], None]) -> Result:
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


def batches(rows: Tensor, size: int) -> Iterator[Tensor]:
    """Cut rows into batches. A last batch of one row joins the one before: batch norm needs two."""
    parts = list(rows.split(size))
    if len(parts) > 1 and len(parts[-1]) == 1:
        parts[-2:] = [torch.cat(parts[-2:])]
    return iter(parts)


class Session:
    """The parties of one run, and what they do together."""

    def __init__(
        self,
        label_party: LabelParty,
        feature_parties: Mapping[str, FeatureParty],
        *,
        seed: int,
        record: Callable[[Message], None],
        device: str | torch.device = "cpu",
    ) -> None:
        self.label_party = label_party
        self.parties: dict[str, FeatureParty | LabelParty] = {
            **feature_parties,
            label_party.name: label_party,
        }
        self.seed = seed
        self.record = record
        self.device = device
        self.step = 0

    def train_epoch(self, epoch: int, rows: Tensor, on_step: Callable[[], None] = lambda: None) -> float:
        """Train on all rows once, in an order that every party derives from the run's seed; mean loss."""
        for party in self.parties.values():
            party.begin_epoch(epoch)
            party.set_phase(Phase.TRAIN)
        order = rows[torch.randperm(len(rows), generator=generator(self.seed, "order", epoch))]
        losses, sizes = [], []
        for part in batches(order.to(self.device), self.label_party.recipe.batch_size):
            batch = Batch(self.step, Phase.TRAIN, part)
            losses.append(self._together(batch, self.record))
            sizes.append(len(part))
            on_step()
        return float(torch.stack(losses).cpu().double() @ torch.tensor(sizes).double()) / len(rows)

    def predict(self, rows: Tensor, record: Callable[[Message], None] | None = None) -> Tensor:
        """Joint inference: the label party's outputs for these rows, defences active as in training."""
        for party in self.parties.values():
            party.set_phase(Phase.PREDICT)
        outputs = []
        for part in rows.to(self.device).split(PREDICTION_ROWS):
            batch = Batch(self.step, Phase.PREDICT, part)
            outputs.append(self._together(batch, record or self.record))
        return torch.cat(outputs).cpu()

    def _together(self, batch: Batch, record: Callable[[Message], None]) -> Tensor:
        """Do one batch; return the label party's result, a loss in training and outputs in prediction."""
        self.step += 1
        result = exchange({n: party.talk(batch) for n, party in self.parties.items()}, record)
        answer = result[self.label_party.name]
        assert answer is not None
        return answer
