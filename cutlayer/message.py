"""Message: the only thing that crosses the cut."""

from collections.abc import Generator
from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

from torch import Tensor

from cutlayer.wire import Encoding, decode, encode, encoded_size


class Kind(Enum):
    """What a message carries."""

    EMBEDDING = "embedding"
    GRADIENT = "gradient"
    SETUP = "setup"  # sizes and public keys, before the first batch
    CIPHER = "cipher"  # encrypted numbers
    SHARE = "share"  # numbers under a mask, on their way through a protocol
    POINTS = "points"  # blinded ids, and tags of ids, while rows are aligned
    SUM = "sum"  # what a protocol opened to a party: its note to itself, which is not sent
    WEIGHTS = "weights"  # of a model, as one vector: what is shared in horizontal learning
    UPDATE = "update"  # the gradient of shared weights, as one vector


class Phase(Enum):
    """Why it crosses: rows are aligned, then training changes the models, and prediction leaves them as they are."""

    ALIGN = "align"
    TRAIN = "train"
    PREDICT = "predict"


@dataclass(frozen=True, slots=True)
class Batch:
    """The rows that all parties work on now; everyone derives them from the run's seed."""

    step: int
    phase: Phase
    rows: Tensor


@dataclass(frozen=True, slots=True)
class Message:
    """One tensor from one party to another. In embeddings, gradients and sums payload[i] belongs to row
    batch.rows[i]. A message from a party to itself notes what it has learned: it is kept, not carried."""

    batch: Batch
    sender: str
    receiver: str
    kind: Kind
    payload: Tensor  # detached; as the receiver decodes it
    encoding: Encoding = Encoding.PLAIN

    @property
    def nbytes(self) -> int:
        """Bytes of payload on the wire. Row numbers are derived, not sent."""
        if self.sender == self.receiver:
            return 0
        return encoded_size(self.payload, self.encoding)


def send(
    batch: Batch, sender: str, receiver: str, kind: Kind, payload: Tensor, encoding: Encoding = Encoding.PLAIN
) -> Message:
    """Make a message whose payload has been through the wire: what the receiver gets, not what was meant."""
    if encoding is not Encoding.PLAIN:
        payload = decode(encode(payload, encoding), encoding, payload)
    return Message(batch, sender, receiver, kind, payload, encoding)


T = TypeVar("T")

#: A party's side of a protocol, as straight-line code: `yield message` sends one, `message = yield None`
#: waits for the next one addressed to this party, and `return` ends its part with a result.
Talk = Generator[Message | None, Message | None, T]
