"""Finding: what came of one attack, in one line of a table. It needs no torch, so a report opens at once."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any


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
    extras: Mapping[str, Any] = field(default_factory=dict)  # leakage per column, a ROC curve, some rows to look at

    def facts(self) -> dict[str, Any]:
        """The finding without its extras, as JSON has it."""
        facts = asdict(self)
        del facts["extras"]
        return facts | {"target": self.target.value, "status": self.status.value}
