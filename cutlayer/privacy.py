"""Privacy: what a defence guarantees about a secret in one run, or why it guarantees nothing. Data, not a sentence.

Two runs are neighbours if they differ in one secret: one label in place of another, one value in place of another, or
one record whose gradients are there or not. The rest is the same and known: all other rows, who is in which batch,
how rows were split and scaled. A stated epsilon covers every way from the secret to what the observer gets.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from cutlayer.errors import RunError
from cutlayer.json_types import Json


class Guarded(Enum):
    """In what two neighbouring runs differ."""

    LABEL = "one training label"
    RECORD = "one training record, there or not"
    VALUE = "one value of a two-valued column"


class Observer(Enum):
    """Who may look."""

    FEATURE_PARTIES = "all feature parties together"
    OTHERS = "all other parties together"
    MODELS = "whoever sees trained models and no message"


@dataclass(frozen=True, slots=True)
class Privacy:
    """One guarantee: an upper bound that follows from the mechanism, and a lower bound that was measured beside it."""

    mechanism: str
    secret: Guarded
    observer: Observer
    epsilon: float | None  # of the whole run; None if none is stated, and `reason` says why
    delta: float = 0.0
    reason: str = ""
    at_least: float | None = None  # what canaries show at 95 %; None if nothing was measured

    def sentence(self) -> str:
        """All of it in words."""
        if self.epsilon is None:
            return f"{self.mechanism}: no epsilon: {self.reason}"
        delta = f" at delta {self.delta:g}" if self.delta else ""
        shown = "not measured" if self.at_least is None else f"at least {self.at_least:.3g} (95 %)"
        return (
            f"{self.mechanism}: epsilon {self.epsilon:.4g}{delta} of {self.secret.value}, "
            f"against {self.observer.value}; measured with canaries: {shown}"
        )

    def to_json(self) -> dict[str, Json]:
        """As JSON values, which `Privacy.of_json` reads."""
        return {
            "mechanism": self.mechanism,
            "secret": self.secret.value,
            "observer": self.observer.value,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "reason": self.reason,
            "at_least": self.at_least,
        }

    @classmethod
    def of_json(cls, record: Mapping[str, object]) -> "Privacy":
        """Read what `to_json` wrote."""
        try:
            return cls(
                mechanism=str(record["mechanism"]),
                secret=Guarded(record["secret"]),
                observer=Observer(record["observer"]),
                epsilon=_number(record["epsilon"]),
                delta=_number(record["delta"]) or 0.0,
                reason=str(record["reason"]),
                at_least=_number(record["at_least"]),
            )
        except (KeyError, ValueError) as error:
            raise RunError(f"Could not read the privacy in run.json ({error}); it is damaged.") from error


def _number(value: object) -> float | None:
    if value is None:
        return None
    if not isinstance(value, int | float):
        raise ValueError(f"{value!r} is not a number")
    return float(value)


def stated_once(guarantees: Sequence[Privacy]) -> list[Privacy]:
    """Of several guarantees for one secret and observer only the least epsilon stays stated: it is the total.

    Each covers every way from the secret to the observer, so all that is seen is computed from what each mechanism
    released, and is as private as the most private of them. Nothing adds up; mechanisms that release one secret side
    by side, whose epsilons would, do not exist here.
    """
    stated: list[Privacy] = []
    for one in guarantees:
        same = [g for g in guarantees if (g.secret, g.observer) == (one.secret, one.observer)]
        epsilons = [(g.epsilon, place) for place, g in enumerate(same) if g.epsilon is not None]
        best = same[min(epsilons)[1]] if epsilons else one
        if one.epsilon is not None and best is not one:
            one = replace(one, epsilon=None, reason=f"{best.mechanism} bounds the same, by less")
        stated.append(one)
    return stated
