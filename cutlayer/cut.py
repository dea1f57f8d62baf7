"""Cut: how the parties' embeddings meet, and how gradients come back.

A cut has a side at every feature party (`offer`) and one at the label party (`gather`, then
`scatter`). Each side is a Talk, straight-line code that sends and receives, so a cut
may exchange one message per batch or twenty, and the loop never knows.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn

from cutlayer.defence import Setting
from cutlayer.errors import ProtocolError
from cutlayer.message import Batch, Kind, Message, Phase, Talk, send
from cutlayer.wire import Encoding

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Roster:
    """Who takes part. `order` is the order in which embeddings meet."""

    label_party: str
    order: tuple[str, ...]  # parties that hold columns; the label party too if it does

    @property
    def feature_parties(self) -> tuple[str, ...]:
        """Those who send embeddings."""
        return tuple(name for name in self.order if name != self.label_party)


@dataclass(frozen=True, slots=True)
class Gathered:
    """What the label party holds once embeddings have met.

    `joint` feeds the top model. `arrived` holds, per feature party, the leaf of the graph whose
    gradient goes back to it: its embedding, or whatever of it the cut lets the label party see.
    """

    joint: Tensor
    arrived: Mapping[str, Tensor]


def collect(
    batch: Batch, kind: Kind, senders: Iterable[str], early: list[Message] | None = None
) -> Talk[dict[str, Message]]:
    """Wait for one message of `kind` from each sender, in whatever order they come.

    A protocol of several messages passes a list in which what came too early waits for its turn.
    """
    awaited = set(senders)
    inbox: dict[str, Message] = {}
    later: list[Message] = []
    waiting = [] if early is None else early
    while awaited:
        message = waiting.pop(0) if waiting else (yield None)
        assert message is not None  # the transport's promise, see message.Talk
        now = message.batch.step == batch.step
        if now and message.kind is kind and message.sender in awaited:
            awaited.remove(message.sender)
            inbox[message.sender] = message
        elif now and early is not None:
            later.append(message)
        else:
            raise ProtocolError(
                f"Expected a {kind.value} of step {batch.step} from {' or '.join(sorted(awaited))}, got a "
                f"{message.kind.value} of step {message.batch.step} from {message.sender}."
            )
    waiting[:0] = later
    return inbox


class Cut:
    """Plain cut: each feature party sends its embedding once and gets its gradient back once.

    Subclasses say how embeddings join; secure cuts replace the talks as well.
    """

    strengths: ClassVar[tuple[str, ...]] = ("",)  # settings that an audit tries, from weak to strong
    partners: ClassVar[tuple[str, ...]] = ()  # defences that a deep audit tries beside it
    gradients: ClassVar[bool] = True  # whether a feature party gets a gradient; if not, its bottom must have no weights

    def begin(self, setting: Setting, bottom: nn.Module | None) -> nn.Module | None:
        """Called once at each party, on a copy of the cut that is its own: return the bottom to run instead."""
        return bottom

    @property
    def memory(self) -> nn.Module | None:
        """What this side must remember between batches, if anything: saved and restored with the party's models."""
        return None

    def shape(self, shapes: list[Shape]) -> Shape:
        """Shape of one row of the joint input, given one row of each party's embedding."""
        raise NotImplementedError

    def join(self, embeddings: list[Tensor]) -> Tensor:
        """Join embeddings, in the roster's order, inside the autograd graph."""
        raise NotImplementedError

    def offer(
        self, name: str, roster: Roster, batch: Batch, embedding: Tensor, encoding: Encoding = Encoding.PLAIN
    ) -> Talk[Tensor | None]:
        """Feature party's side: send the embedding, return its gradient (None outside training)."""
        yield send(batch, name, roster.label_party, Kind.EMBEDDING, embedding, encoding)
        if batch.phase is not Phase.TRAIN:
            return None
        inbox = yield from collect(batch, Kind.GRADIENT, (roster.label_party,))
        gradient = inbox[roster.label_party].payload
        if gradient.shape != embedding.shape:
            raise ProtocolError(f"Expected a gradient of shape {tuple(embedding.shape)}, got {tuple(gradient.shape)}.")
        return gradient

    def gather(self, roster: Roster, batch: Batch, own: Tensor | None) -> Talk[Gathered]:
        """Label party's side: wait for all embeddings and join them with its own."""
        inbox = yield from collect(batch, Kind.EMBEDDING, roster.feature_parties)
        arrived = {name: inbox[name].payload.detach() for name in roster.feature_parties}
        for name, embedding in arrived.items():
            if len(embedding) != len(batch.rows):
                raise ProtocolError(f"Expected {len(batch.rows)} rows from {name}, got {len(embedding)}.")
            if batch.phase is Phase.TRAIN:
                embedding.requires_grad_()
        parts = [arrived.get(name, own) for name in roster.order]
        return Gathered(self.join([part for part in parts if part is not None]), arrived)

    def settle(self, roster: Roster, batch: Batch, gradients: Mapping[str, Tensor]) -> Talk[None]:
        """Label party's side, between its backward pass and its update: finish what lies on this side of the cut."""
        yield from ()

    def scatter(
        self, roster: Roster, batch: Batch, gradients: Mapping[str, Tensor], encoding: Encoding = Encoding.PLAIN
    ) -> Talk[None]:
        """Label party's side: send each feature party the gradient of its embedding."""
        for name, gradient in gradients.items():
            yield send(batch, roster.label_party, name, Kind.GRADIENT, gradient, encoding)
