"""Attack: from a View to a Guess. The truth is elsewhere, and only `judge` holds both."""

from dataclasses import dataclass
from typing import ClassVar

from torch import Generator, Tensor

from cutlayer.defence import Role
from cutlayer.finding import Form as Form
from cutlayer.finding import Target as Target
from cutlayer.spec import describe, kebab
from cutlayer.view import Manifest, View


@dataclass(frozen=True, kw_only=True)
class Asks:
    """Side knowledge that an attack needs. The judge grants exactly this, and prints it."""

    labels: int = 0  # rows with their labels, spread over the classes as evenly as possible
    features: int = 0  # rows of the victim's inputs
    bottom: bool = False  # the victim's trained bottom model
    form: bool = False  # the form of the victim's bottom model, not its weights
    top: bool = False  # the label party's trained top model, and all embeddings of the test rows
    frozen_train: bool = False  # one prediction pass over the training rows after training
    shadow: int = 0  # complete rows, labels and all, that are not trained on
    course: int = 0  # how many of the first training steps show the victim's weights and their gradients
    start: bool = False  # whether all models of a rehearsal start as those of the run did

    def __str__(self) -> str:
        parts = [
            f"{self.labels} labels" if self.labels else "",
            f"{self.features} of the victim's rows" if self.features else "",
            "the victim's bottom model" if self.bottom else "",
            "the form of the victim's bottom model" if self.form else "",
            "the top model and all embeddings of the test rows" if self.top else "",
            "a prediction pass over the training rows" if self.frozen_train else "",
            f"{self.shadow} complete rows outside of training" if self.shadow else "",
            f"the victim's weights and their gradients in {self.course} training steps" if self.course else "",
            "the weights that all models started from" if self.start else "",
        ]
        return ", ".join(part for part in parts if part) or "nothing"


@dataclass(frozen=True)
class Guess:
    """What the attacker believes about some rows. Scores may carry the batch that they belong to.

    `unordered`: the attacker does not know which guess belongs to which row of its group; the judge pairs them as
    fits best.
    """

    rows: Tensor
    values: Tensor
    form: Form
    groups: Tensor | None = None
    wanted: int = 0  # the class that submissions should bring about
    unordered: bool = False


class Attack:
    """One attack. Override `run`; say who attacks what and what the attacker must know."""

    target: ClassVar[Target]
    by: ClassVar[Role]
    settings: ClassVar[tuple[str, ...]] = ("",)  # what an audit tries; a quick audit tries the first

    @property
    def asks(self) -> Asks:
        """Side knowledge needed."""
        return Asks()

    def applies(self, manifest: Manifest) -> str | None:
        """Return why the attack does not apply to a run, or None if it does."""
        if self.target is Target.LABELS and manifest.classes == 0:
            return "classes-only"
        return None

    def run(self, view: View, rng: Generator) -> Guess:
        """Attack. Only the view may be read, never changed; all draws come from `rng`."""
        raise NotImplementedError

    @property
    def name(self) -> str:
        """The name on the command line."""
        return kebab(type(self).__name__)

    def describe(self) -> str:
        """Return name and settings as the command line has them."""
        return describe(self)
