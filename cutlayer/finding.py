"""Finding: what came of one attack, in one line of a table. It needs no torch, so a report opens at once."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Required, TypedDict

from cutlayer.json_types import Json


class Target(StrEnum):
    """What an attack is after."""

    LABELS = "labels"
    FEATURES = "features"
    OUTCOME = "outcome"  # not learned but forced: the label party's prediction


class Form(StrEnum):
    """How a guess reads. Each form is measured by its own file in metrics/forms/."""

    CLASSES = "classes"  # a class number per row
    SCORES = "scores"  # the higher, the more likely positive (binary)
    VALUES = "values"  # the victim's inputs, one per row
    COLUMNS = "columns"  # two-valued columns of the victim, rows x found, each up to complement
    SUBMISSIONS = "submissions"  # what the attacker sends in prediction instead of its embeddings


class Status(StrEnum):
    """How an attack ended."""

    DONE = "done"
    DOES_NOT_APPLY = "does not apply"
    FAILED = "failed"
    MISSING = "missing"  # in the record of a study: it has not run


class Roc(TypedDict):
    """True against false positives, and how many are found while few are wrongly accused."""

    fpr: list[float]
    tpr: list[float]
    tpr_at_1: float  # true positives at 1% false ones
    tpr_at_01: float  # at 0.1%


class PerColumn(TypedDict):
    """Leakage per input column: where it stands, how well it was guessed, and how well without the view."""

    places: list[int]
    value: list[float]
    baseline: list[float]


class Correlations(TypedDict):
    """How columns go together, as matrices."""

    truth: list[list[float]]
    guess: list[list[float]]


class Shown(TypedDict):
    """Some rows to look at, as nested lists of the shape that inputs have."""

    truth: list[Json]
    guess: list[Json]


class Extras(TypedDict, total=False):
    """What a finding has beyond its figures."""

    columns: PerColumn
    roc: Roc
    correlations: Correlations
    shown: Shown


class FindingFacts(TypedDict, total=False):
    """A finding as JSON has it; of an attack that gave none, only why."""

    attack: Required[str]
    attacker: str
    target: Required[str]
    victim: str
    metric: str
    value: float
    baseline: float
    baseline_name: str
    low: float
    high: float
    rows: int
    granted: str
    status: Required[str]
    reason: Required[str]
    detail: str
    figures: dict[str, float]
    seconds: float


@dataclass(frozen=True)
class Finding:
    """One attack's outcome. `low` and `high` bound a 95% interval over the attacked rows (or batches)."""

    attack: str
    attacker: str
    target: Target
    victim: str
    metric: str
    value: float
    baseline: float
    baseline_name: str
    low: float
    high: float
    rows: int
    granted: str
    status: Status = Status.DONE
    reason: str = ""
    detail: str = ""  # what one number does not say, in a sentence made from the figures
    figures: Mapping[str, float] = field(default_factory=dict)  # by name: exact, columns, claimed, first, off, flagged
    seconds: float = 0.0  # that the attack took
    extras: Extras = field(default_factory=Extras)

    def facts(self) -> FindingFacts:
        """The finding without its extras, as JSON has it."""
        return {
            "attack": self.attack,
            "attacker": self.attacker,
            "target": self.target.value,
            "victim": self.victim,
            "metric": self.metric,
            "value": self.value,
            "baseline": self.baseline,
            "baseline_name": self.baseline_name,
            "low": self.low,
            "high": self.high,
            "rows": self.rows,
            "granted": self.granted,
            "status": self.status.value,
            "reason": self.reason,
            "detail": self.detail,
            "figures": dict(self.figures),
            "seconds": self.seconds,
        }
