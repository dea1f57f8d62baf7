"""Which rows to predict, as two talks: `ask` at the label party, `answer` at every feature party.

Tags of new ids go out, each party says which it has, and the numbers of the rows that all have go out. So a feature
party learns which of its own ids are asked about and which of these all others have too, and the label party which
of the ids it asks for a feature party has.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from cutlayer.cut import collect
from cutlayer.errors import ProtocolError
from cutlayer.message import Batch, Kind, Message, Talk
from cutlayer.net.predict.row_index import TAG, Book, Numbered
from cutlayer.session import PREDICTION_ROWS

MOST = PREDICTION_ROWS  # ids in one question: they are predicted in one batch


def ask(
    name: str, peers: Sequence[str], batch: Batch, new: Sequence[bytes], rows: Callable[[Tensor], list[int]]
) -> Talk[Tensor]:
    """Label party: have new tags looked up; `rows` makes of the answers, (parties, tags), the rows to predict."""
    answers = torch.empty((len(peers), 0), dtype=torch.uint8)
    if new:
        tags = torch.frombuffer(bytearray(b"".join(new)), dtype=torch.uint8).view(-1, TAG)
        for peer in peers:
            yield Message(batch, name, peer, Kind.POINTS, tags)
        inbox = yield from collect(batch, Kind.POINTS, peers)
        for peer in peers:
            if inbox[peer].payload.dtype is not torch.uint8 or inbox[peer].payload.shape != (len(new),):
                raise ProtocolError(f"Expected {peer} to say which of {len(new)} ids it has, got something else.")
        answers = torch.stack([inbox[peer].payload for peer in peers])
    found = torch.tensor(rows(answers), dtype=torch.int64)
    for peer in peers:  # how many, then which: a message is never empty
        yield Message(batch, name, peer, Kind.SETUP, torch.cat([torch.tensor([len(found)]), found]))
    return found


def answer(name: str, leader: str, batch: Batch, new: bool, book: Book, numbered: Numbered) -> Talk[Tensor]:
    """Feature party: look tags up, number their rows; the rows to predict."""
    if new:
        inbox = yield from collect(batch, Kind.POINTS, (leader,))
        tags = inbox[leader].payload
        if tags.dtype is not torch.uint8 or tags.ndim != 2 or tags.shape[1] != TAG or not 0 < len(tags) <= MOST:
            raise ProtocolError(f"Expected at most {MOST} tags of {TAG} bytes from {leader}, got {tuple(tags.shape)}.")
        places = [book.places.get(bytes(one.numpy()), -1) for one in tags]
        numbered.add(places)
        has = torch.tensor([place >= 0 for place in places], dtype=torch.uint8)
        yield Message(batch, name, leader, Kind.POINTS, has)
    inbox = yield from collect(batch, Kind.SETUP, (leader,))
    said = inbox[leader].payload
    fits = said.dtype is torch.int64 and said.ndim == 1 and 1 <= len(said) <= MOST + 1
    if not fits or int(said[0]) != len(said) - 1 or not numbered.knows(said[1:]):
        raise ProtocolError(f"Expected rows that {name} has from {leader}, got others.")
    return said[1:]
