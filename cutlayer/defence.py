"""Defence: change what you send, what you train on, or what you train. Override one hook, keep the rest.

Every party is given the same list of defences and applies the part that is its own: a hook looks at
`place` (what is being changed) or `role` (who asks) and otherwise returns its input.
A defence holds settings only. What it must remember during a run lives in the module that
`model` returned, so it is trained, saved and restored with the model.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar

from torch import Tensor, nn
from torch.optim import Optimizer

from cutlayer.blocks.sparse import SparseRows
from cutlayer.draws import Draws
from cutlayer.privacy import Privacy
from cutlayer.recipe import Recipe
from cutlayer.spec import describe
from cutlayer.wire import Encoding


class Role(Enum):
    """Who applies a hook."""

    FEATURE_PARTY = "feature party"
    LABEL_PARTY = "label party"


class Subject(Enum):
    """What a hook is asked about before training."""

    PARTY = ""  # the party as a whole
    FEATURES = "features"
    BOTTOM = "bottom"
    TOP = "top"
    LABELS = "labels"
    OPTIMISER = "optimiser"


class Place(Enum):
    """What a hook is asked about in a batch."""

    INPUTS = "inputs"  # at each party with columns: the batch's rows
    LABELS = "labels"  # at the label party, in training: the batch's labels
    EMBEDDING = "embedding"  # at a feature party, before it is sent
    GRADIENT = "gradient"  # at the label party, before it is sent
    UPDATE = "update"  # at a client of horizontal learning: the change of shared weights, or their gradient
    LOGITS = "logits"  # at the label party: the loss's gradient at the logits, before it flows back


@dataclass(frozen=True, slots=True)
class Course:
    """How much a run releases: what an accountant of privacy needs to know, before training and after."""

    rows: int  # that are trained on; 0 where a deployed party does not know it yet
    batch_size: int
    epochs: int
    feature_parties: int
    classes: int  # 0 for regression
    defences: tuple["Defence", ...] = ()  # of the run, in order
    plain_cut: bool = True  # whether the cut sends gradients back as defences leave them, and nothing else


@dataclass(frozen=True, slots=True)
class Setting:
    """What a party knows before training: its role, the public facts, and its random streams."""

    party: str
    role: Role
    subject: Subject
    classes: int  # 0 for regression
    rng: Draws  # private to the party
    shared_seed: int  # the run's seed, known to all parties
    private_seed: int = 0  # a seed that only this party knows
    rows: int = 0  # of the party's table; batches name rows by their number in it
    course: Course | None = None  # as planned


@dataclass(frozen=True, slots=True)
class Local:
    """What a defence's owner itself knows about the current batch."""

    place: Place
    rng: Draws  # private to the party
    training: bool
    rows: Tensor
    inputs: Tensor | SparseRows | None = None  # at a feature party
    labels: Tensor | None = None  # at the label party, in training
    peer: str = ""  # at the label party: who sent the embedding, or gets the gradient
    classes: int = 0
    shared_seed: int = 0  # as in Setting
    private_seed: int = 0
    outputs: Tensor | None = None  # the logits, at LABELS and GRADIENT
    retrace: Callable[[Tensor], Tensor] | None = None  # at GRADIENT: from another gradient at the logits to the
    # gradient that would be sent for it
    top: nn.Module | None = None  # at LABELS: the top model, with the module that a defence put there
    course: Course | None = None  # as planned


class Defence:
    """The identity: every hook returns its input."""

    strengths: ClassVar[tuple[str, ...]] = ("",)  # settings that an audit tries, from weak to strong
    partners: ClassVar[tuple[str, ...]] = ()  # defences that a deep audit tries beside it

    @property
    def clients(self) -> bool:
        """Whether it also protects a client of horizontal learning.

        A client calls only three hooks: `model` for its bottom, `batch` for its rows, and `protect` for the bottom's
        output, the gradient at the logits and the update.
        """
        return False

    @property
    def label_path(self) -> bool:
        """Whether labels may reach a message through it other than by the gradient that it is given.

        So they do if it adds labels to the loss, if its `protect` reads `labels`, `outputs` or `retrace` of `local`, or
        if one row's training label depends on other rows' labels. Where it does, no other defence can state an epsilon.
        """
        return any(getattr(type(self), hook) is not getattr(Defence, hook) for hook in ("labels", "batch", "penalty"))

    def model(self, model: nn.Module, setting: Setting) -> nn.Module:
        """Return the model to train instead (called once, before training, for each bottom and top)."""
        return model

    def features(self, values: Tensor | SparseRows, setting: Setting) -> Tensor | SparseRows:
        """Return the columns to compute on instead (called once, at each party that holds some)."""
        return values

    def labels(self, labels: Tensor, setting: Setting) -> Tensor:
        """Return the labels to train on instead (called once): class numbers, or a row of weights per class."""
        return labels

    def batch(self, values: Tensor | SparseRows, local: Local) -> Tensor | SparseRows:
        """Return the batch's rows (at INPUTS) or labels (at LABELS, in training) to compute on instead.

        It is to one batch what `features` and `labels` are to the whole table.
        """
        return values

    def protect(self, payload: Tensor, local: Local) -> Tensor:
        """Return what leaves instead; inside its owner's graph, in training, evaluation and serving alike."""
        return payload

    def penalty(self, embedding: Tensor, local: Local) -> Tensor | None:
        """Return a term to add to the owner's loss: at a feature party for the embedding it sends, at the
        label party for each embedding that arrives (then `local.labels` is set)."""
        return None

    def optimiser(
        self, optimiser: Optimizer, modules: Sequence[nn.Module], setting: Setting, recipe: Recipe
    ) -> Optimizer:
        """Return the optimiser to update a party's modules with instead (called once, before training).

        `setting.rng` is the party's own stream, which is saved with it.
        """
        return optimiser

    def inspect(self, arrived: Mapping[str, Tensor], own: Tensor | None, local: Local) -> Tensor | None:
        """Look at what arrived, at the label party: raise ProtocolError, or return which rows look wrong."""
        return None

    def width(self, width: int, classes: int) -> int:
        """Return the width that embeddings must have."""
        return width

    def encoding(self, place: Place) -> Encoding | None:
        """Return how a payload is encoded on the wire, if this defence makes it special."""
        return None

    def notes(self, course: Course) -> tuple[str, ...]:
        """Return what the record of a run should say."""
        return ()

    @property
    def covers_top(self) -> bool:
        """Whether its guarantee for labels also covers the top model, so that an auditor may know it."""
        return False

    def privacy(self, course: Course) -> Privacy | None:
        """Return the differential privacy of the planned run, or that there is none and why; None: not its subject."""
        return None

    def describe(self) -> str:
        """Return name and settings as the command line writes them."""
        return describe(self)


def protect(defences: Sequence[Defence], payload: Tensor, local: Local) -> Tensor:
    """Apply defences in order."""
    for defence in defences:
        payload = defence.protect(payload, local)
    return payload


def penalty(defences: Sequence[Defence], embedding: Tensor, local: Local) -> Tensor | None:
    """Add up the defences' terms; None if there are none, so that the undefended path pays nothing."""
    terms = [term for defence in defences if (term := defence.penalty(embedding, local)) is not None]
    return sum(terms[1:], start=terms[0]) if terms else None


def encoding_of(defences: Sequence[Defence], place: Place) -> Encoding:
    """How a payload crosses: as the last defence that has a say wants it."""
    encodings = [encoding for defence in defences if (encoding := defence.encoding(place)) is not None]
    return encodings[-1] if encodings else Encoding.PLAIN


def changes(defences: Sequence[Defence], hook: str) -> list[Defence]:
    """Return those defences that override a hook."""
    return [d for d in defences if getattr(type(d), hook) is not getattr(Defence, hook)]
