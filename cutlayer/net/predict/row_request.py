"""Row request: which rows to predict, as two talks, `ask` at the label party and `answer` at every feature party.

The tags of new ids go out, each party answers which it has, and the numbers of the rows that all have go out. So a
feature party learns which of its own ids are asked about and which of these all others have too; the label party learns
which of the ids that it asks about a feature party has.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from cutlayer.cut import collect
from cutlayer.errors import ProtocolError
from cutlayer.message import Batch, Kind, Message, Phase, Talk
from cutlayer.net.predict.row_index import TAG, RowIndex, RowNumbers
from cutlayer.session import PREDICTION_ROWS

ID_LIMIT = PREDICTION_ROWS  # ids in one request: they are predicted in one batch


def request_batch(step: int) -> Batch:
    """The batch of a request, which has no rows of its own."""
    return Batch(step, Phase.PREDICT, torch.empty(0, dtype=torch.int64))


def ask(
    name: str, peers: Sequence[str], batch: Batch, tags: Sequence[bytes], choose: Callable[[Tensor], list[int]]
) -> Talk[Tensor]:
    """Label party: have new tags looked up; `choose` turns the answers, (parties, tags), into rows to predict."""
    answers = torch.empty((len(peers), 0), dtype=torch.uint8)
    if tags:
        payload = torch.frombuffer(bytearray(b"".join(tags)), dtype=torch.uint8).view(-1, TAG)
        for peer in peers:
            yield Message(batch, name, peer, Kind.POINTS, payload)
        inbox = yield from collect(batch, Kind.POINTS, peers)
        for peer in peers:
            if inbox[peer].payload.dtype is not torch.uint8 or inbox[peer].payload.shape != (len(tags),):
                raise ProtocolError(f"Expected {peer} to say which of {len(tags)} ids it has, got something else.")
        answers = torch.stack([inbox[peer].payload for peer in peers])
    rows = torch.tensor(choose(answers), dtype=torch.int64)
    for peer in peers:  # how many, then which: a message is never empty
        yield Message(batch, name, peer, Kind.SETUP, torch.cat([torch.tensor([len(rows)]), rows]))
    return rows


def answer(name: str, leader: str, batch: Batch, has_new: bool, index: RowIndex, numbers: RowNumbers) -> Talk[Tensor]:
    """Feature party: look new tags up and number their rows; the rows to predict."""
    if has_new:
        inbox = yield from collect(batch, Kind.POINTS, (leader,))
        tags = inbox[leader].payload
        if tags.dtype is not torch.uint8 or tags.ndim != 2 or tags.shape[1] != TAG or not 0 < len(tags) <= ID_LIMIT:
            raise ProtocolError(
                f"Expected at most {ID_LIMIT} tags of {TAG} bytes from {leader}, got {tuple(tags.shape)}."
            )
        rows = [index.rows.get(bytes(tag.numpy()), -1) for tag in tags]
        numbers.add(rows)
        known = torch.tensor([row >= 0 for row in rows], dtype=torch.uint8)
        yield Message(batch, name, leader, Kind.POINTS, known)
    inbox = yield from collect(batch, Kind.SETUP, (leader,))
    chosen = inbox[leader].payload
    fits = chosen.dtype is torch.int64 and chosen.ndim == 1 and 1 <= len(chosen) <= ID_LIMIT + 1
    if not fits or int(chosen[0]) != len(chosen) - 1 or not numbers.all_known(chosen[1:]):
        raise ProtocolError(f"Expected rows that {name} has from {leader}, got others.")
    return chosen[1:]
