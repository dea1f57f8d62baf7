"""View: all that an attack ever gets. What a set of parties saw, holds and was told, and nothing else.

A View holds channels, not the Transcript; the attacker's own tensors, not the Task. So there is
no path of attributes from a View to the labels or to another party's rows, and a test walks
every object reachable from one to prove it (tests/test_view.py).
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from torch import Tensor, nn

from cutlayer.blocks.sparse import SparseRows
from cutlayer.cut import Cut, Roster
from cutlayer.defence import Defence
from cutlayer.errors import Inapplicable, RunError
from cutlayer.message import Kind, Message, Phase
from cutlayer.recipe import Recipe
from cutlayer.rng import Stream
from cutlayer.transcript import Channel, Transcript

D = TypeVar("D", bound=Defence)


@dataclass(frozen=True)
class Manifest:
    """What every party knows: who takes part, what is learned, how, and under which defences."""

    task: str
    roster: Roster
    classes: int  # 0 for regression
    train: Tensor  # row numbers
    test: Tensor
    recipe: Recipe
    cut: Cut
    seed: int = 0  # the run's: mini-batches and shared codes follow from it
    defences: tuple[Defence, ...] = ()
    shares: tuple[str, ...] = ()  # in horizontal learning, the parts of a client's model that are averaged

    @property
    def label_party(self) -> str:
        """Who holds the labels."""
        return self.roster.label_party

    def uses(self, kind: type[D]) -> D | None:
        """The run's defence of a kind, with its settings, or None."""
        return next((defence for defence in self.defences if isinstance(defence, kind)), None)


@dataclass(frozen=True)
class Own:
    """What one party holds: its columns, its trained models (in evaluation mode), its labels if any."""

    features: Tensor | SparseRows | None
    bottom: nn.Module | None
    labels: Tensor | None = None
    top: nn.Module | None = None
    start: Callable[[], "Start"] | None = None  # how a feature party began


@dataclass(frozen=True)
class Start:
    """A party before training: its bottom, its columns as its defences leave them, its random stream."""

    bottom: nn.Module
    features: Tensor | SparseRows
    stream: Stream


@dataclass(frozen=True)
class Known:
    """Some rows whose truth the attacker was told."""

    rows: Tensor
    values: Tensor


@dataclass(frozen=True)
class Shadow:
    """Complete rows of the same kind, none of them trained on, and the same federation to be trained on them.

    `rehearse(seed, epochs, defended)` trains it and returns what the attacker would have seen there, every epoch
    kept; its rows are counted from 0, in the order of `labels`. The attacker's own model starts as it did in the
    run; the others' do so only where the attack asked for that (`Asks.start`).
    """

    rows: Tensor  # their numbers in the attacked task; empty if they are not of it
    features: Mapping[str, Tensor]
    labels: Tensor
    rehearse: "Callable[[int, int, bool], View]"


@dataclass(frozen=True)
class Moment:
    """A party in one training step: the batch, its bottom before the step, and the gradient of each parameter."""

    rows: Tensor
    bottom: nn.Module
    gradients: Mapping[str, Tensor]


@dataclass(frozen=True)
class Hints:
    """Side knowledge that the threat model grants, and that every result declares."""

    labels: Known | None = None  # some labelled rows
    features: Mapping[str, Known] = field(default_factory=dict)  # some of the victim's rows
    bottoms: Mapping[str, nn.Module] = field(default_factory=dict)  # the victim's model (white box)
    forms: Mapping[str, nn.Module] = field(default_factory=dict)  # everyone else's, with weights drawn anew
    top: nn.Module | None = None  # the label party's model (white box)
    embeddings: Mapping[str, Known] = field(default_factory=dict)  # everyone's, of the test rows
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  # of one row of the victim's inputs
    shadow: Shadow | None = None  # complete rows outside of the training set
    course: Mapping[str, tuple[Moment, ...]] = field(default_factory=dict)  # everyone else's first training steps


@dataclass(frozen=True)
class View:
    """What the attacking parties saw (channels), hold (own) and were told (hints)."""

    parties: frozenset[str]
    manifest: Manifest
    channels: tuple[Channel, ...]
    own: Mapping[str, Own]
    hints: Hints = field(default_factory=Hints)
    victim: str = ""  # whose secret is asked for

    @property
    def attacker(self) -> str:
        """The attacking party (the first by name, if several collude)."""
        return min(self.parties)

    @property
    def messages(self) -> Iterator[Message]:
        """Every message seen, channel by channel."""
        for channel in self.channels:
            yield from channel.messages()

    def channel(self, kind: Kind, phase: Phase = Phase.TRAIN, *, peer: str | None = None) -> Channel:
        """The one channel of a kind and phase, with a certain peer if there are several."""
        channels = [
            c
            for c in self.channels
            if c.kind is kind and c.phase is phase and len(c) and (peer is None or peer in (c.sender, c.receiver))
        ]
        if not channels:
            if kind is Kind.GRADIENT and not self.manifest.cut.gradients:
                raise Inapplicable("no gradient crosses")
            raise RunError(
                f"Expected {kind.value} messages of the {phase.value} phase in the transcript, found none; "
                f"train with --keep last or --keep all."
            )
        return channels[0]


def view_of(transcript: Transcript, parties: frozenset[str], manifest: Manifest, own: Mapping[str, Own]) -> View:
    """Cut a View out of a transcript: only channels that one of the parties sent on or received from."""
    channels = tuple(c for c in transcript.channels.values() if {c.sender, c.receiver} & parties)
    return View(parties, manifest, channels, {name: own[name] for name in sorted(parties)})
