"""Measure: how guesses of one form are scored, and all that a report must know to speak of the score.

A form's file in metrics/forms/ holds metric, direction, baseline and wording together. Nothing here or there imports
torch: the judge hands over tensors, and a report reads the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from cutlayer.finding import Extras, Form, PerColumn

if TYPE_CHECKING:
    from torch import Tensor

    from cutlayer.attack import Guess
    from cutlayer.view import Known


@dataclass(frozen=True)
class Case:
    """A guess, and the truth about its rows; rows that the attacker was told are left out of both."""

    guess: Guess
    attacker: str
    victim: str
    labels: Tensor  # of the guessed rows
    features: Callable[[], Tensor]  # the victim's columns of the guessed rows
    mean: Callable[[], Tensor]  # of the victim's columns, over the training rows
    own: Callable[[], Tensor | None]  # the attacker's own columns of the guessed rows, flat
    known: Known | None  # what the attacker was told of the secret, for other rows
    known_own: Tensor | None  # and its own columns of those
    predict: Callable[[Mapping[str, Tensor]], tuple[Tensor, Tensor]] | None
    # joint prediction of the guessed rows with some parties' submissions replaced: outputs, and which rows were flagged


@dataclass(frozen=True)
class Score:
    """How good a guess is, beside the best guess without the view."""

    value: float
    low: float
    high: float
    baseline: float
    baseline_name: str
    figures: Mapping[str, float] = field(default_factory=dict)
    extras: Extras = field(default_factory=Extras)


class Measure:
    """One form's metric. Override `score`; say what the metric is called and in which direction it leaks."""

    form: ClassVar[Form]
    metric: ClassVar[str]
    title: ClassVar[str] = ""  # for the axis of a plot, where it differs from the metric's name
    perfect: ClassVar[float] = 1.0  # for an attack without a mistake
    bounds: ClassVar[tuple[float, float]] = (0.0, 1.0)  # what the metric can reach
    two_sided: ClassVar[bool] = False  # an attacker may turn its scores around: below the baseline leaks as well

    def score(self, case: Case) -> Score:
        """Compare a guess with the truth, and with the best guess without the view."""
        raise NotImplementedError

    def sentence(self, figures: Mapping[str, float]) -> str:
        """Tell a reader the figures of a score."""
        return ""

    @property
    def name(self) -> str:
        """What a plot calls the metric."""
        return self.title or self.metric

    @property
    def less_is_more(self) -> bool:
        """Whether a lower figure means that more leaks."""
        return self.perfect == self.bounds[0]

    @property
    def direction(self) -> str:
        """What a table says of the metric."""
        return f"{'lower' if self.less_is_more else 'higher'} leaks more"

    def advantage(self, value: float, baseline: float) -> float:
        """The share of the way from the baseline to perfect; 0 where the baseline is perfect already."""
        return (value - baseline) / (self.perfect - baseline) if baseline != self.perfect else 0.0

    def heat(self, advantage: float) -> float:
        """What a colour shows: the advantage, cut to 0 ... 1; of a two-sided metric its size."""
        return min(1.0, abs(advantage) if self.two_sided else max(0.0, advantage))

    def error(self, value: float) -> float:
        """How wrong an attack is, as FedAdOb counts it."""
        return 1 - value


def per_column(places: Iterable[int], values: Iterable[float], baselines: Iterable[float]) -> PerColumn:
    """Leakage per input column: where it stands, how well it was guessed, and how well without the view."""
    value, baseline = ([round(float(number), 6) for number in numbers] for numbers in (values, baselines))
    return {"places": [int(place) for place in places], "value": value, "baseline": baseline}
