"""read(): one number of an outcome, picked by what it is, by the attack's name and by the victim's."""

from enum import StrEnum

from cutlayer._validate import one_of
from cutlayer.errors import ConfigError
from cutlayer.experiment.finding_row import FindingRow
from cutlayer.experiment.store import Outcome
from cutlayer.finding import Status
from cutlayer.metrics.forms import measure_named

STRONGEST = "strongest"  # in place of an attack's name: the one with the least error


class Quantity(StrEnum):
    """What is read off an outcome. Shares are in percent; errors, and what is calibrated by them, are not."""

    ACCURACY = "accuracy"
    AUC = "auc"
    CHECK = "check"  # a figure of a check, by its name
    ATTACK = "attack"  # the value of an attack, by the attack's name, as are all that follow
    BASELINE = "baseline"
    SECONDS = "seconds"
    ERROR = "error"  # by how much guesses are off: squared, or the share of wrong labels
    CAP = "cap"  # error times accuracy: FedAdOb's calibrated averaged performance
    EXACT = "exact"  # this and the next are figures of the finding
    CLAIMED = "claimed"
    FIRST = "first"
    OFF = "off"


def read(outcome: Outcome, what: str, victim: str = "") -> float | None:
    """Read a number off an outcome, or None where there is none.

    `what` is a Quantity, and after a colon the name of an attack or of a check's figure: `attack:decoder`. `victim`
    says whose secret is meant where the attack has several victims.
    """
    word, _, name = what.partition(":")
    one_of("kind of figure", word, list(Quantity))
    kind = Quantity(word)
    if outcome["status"] != Status.DONE:
        return None
    if kind in (Quantity.ACCURACY, Quantity.AUC):
        return float(100 * outcome["metrics"][kind])
    if kind is Quantity.CHECK:
        figures = {key: value for check in outcome["checks"].values() for key, value in check.items()}
        return float(figures[name]) if name in figures else None
    if kind in (Quantity.ERROR, Quantity.CAP):
        error = _error(outcome, name, victim)
        return error if error is None or kind is Quantity.ERROR else float(outcome["metrics"]["accuracy"] * error)
    row = _row(outcome, name, victim)
    return None if row is None else _figure(row, kind)


def _row(outcome: Outcome, attack: str, victim: str) -> FindingRow | None:
    """The row of an attack on a victim, if the attack was done."""
    rows = [row for row in outcome["attacks"][attack] if row["status"] == Status.DONE]
    if victim:
        rows = [row for row in rows if row["victim"] == victim]
    if len(rows) > 1:
        victims = ", ".join(row["victim"] for row in rows)
        raise ConfigError(f"Expected the entry to say which victim of {attack} it means, one of {victims}.")
    return rows[0] if rows else None


def _error(outcome: Outcome, attack: str, victim: str) -> float | None:
    """By how much an attack's guesses are off; FedAdOb's recovery error."""
    attacks = outcome["attacks"] if attack == STRONGEST else [attack]
    rows = [row for name in attacks if (row := _row(outcome, name, victim)) is not None]
    return min((measure_named(row["metric"]).error(row["value"]) for row in rows), default=None)


def _figure(row: FindingRow, kind: Quantity) -> float | None:
    if kind is Quantity.SECONDS:
        return float(row["seconds"])
    if kind in (Quantity.ATTACK, Quantity.BASELINE):
        percent = 1 if measure_named(row["metric"]).less_is_more else 100  # errors are no shares
        return float(percent * row["value" if kind is Quantity.ATTACK else "baseline"])
    return float(row["figures"][kind]) if kind in row["figures"] else None
