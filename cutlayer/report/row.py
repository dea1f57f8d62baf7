"""Row: one finding as plain data: one attack, on one victim, under one setup, with one seed."""

from collections.abc import Iterable, Mapping
from math import isfinite
from typing import Any, TypedDict, cast, get_args, get_type_hints

from cutlayer._validate import one_of
from cutlayer.errors import ConfigError
from cutlayer.finding import Status, Target
from cutlayer.metrics.forms import NAMED
from cutlayer.setup import setup_of


class Row(TypedDict):
    """What is known of a finding. Unknown numbers are None; value and baseline are known where it is done."""

    defence: str
    strength: str
    attack: str
    target: Target
    attacker: str
    victim: str
    seed: int
    metric: str
    value: float | None
    baseline: float | None
    baseline_name: str
    low: float | None
    high: float | None
    accuracy: float | None
    utility_metric: str
    bytes: int | None
    step_bytes: int | None
    step_seconds: float | None
    train_seconds: float | None
    seconds: float | None
    status: Status
    reason: str
    granted: str
    detail: str
    paper: str
    cell: str


class Summary(Row):
    """The mean over seeds of findings that differ in nothing else."""

    seeds: int


Order = tuple[bool, str, tuple[float, ...], str, str, str, str, int, str]


def _columns(kind: type) -> tuple[str, ...]:
    hints = get_type_hints(Row).items()
    return tuple(name for name, hint in hints if any(issubclass(part, kind) for part in get_args(hint) or (hint,)))


COLUMNS = tuple(Row.__annotations__)
WORDS, FIGURES, COUNTS = _columns(str), _columns(float), _columns(int)
CLOCK = ("step_seconds", "train_seconds", "seconds")  # differ between two equal runs
KNOWN_OF_MISSING = ("defence", "attack", "seed")  # at least


def read_row(given: Mapping[str, object], where: str = "the row") -> Row:
    """Check a row and complete its types.

    A row that says "done" without a finite value and baseline becomes one that failed.
    """
    check_keys(given, COLUMNS, where)
    words = {key: _word(given[key], key, where) for key in WORDS}
    numbers = {key: _number(given[key], key, where) for key in (*FIGURES, *COUNTS)}
    if numbers["seed"] is None:
        raise ConfigError(f"Expected {where} to have a seed.")
    one_of(f"status of {where}", words["status"], [status.value for status in Status])
    one_of(f"target of {where}", words["target"], [target.value for target in Target])
    checked = words | numbers | {"status": Status(words["status"]), "target": Target(words["target"])}
    row = cast(Row, {key: checked[key] for key in COLUMNS})
    if row["status"] is not Status.DONE:
        return row
    one_of(f"metric of {where}", row["metric"], list(NAMED))
    if row["value"] is None or row["baseline"] is None:
        lacking = "value" if row["value"] is None else "baseline"
        row |= {"status": Status.FAILED, "reason": f"the attack ended without a finite {lacking}"}
    return row


def read_missing(given: Mapping[str, object], where: str = "what is missing") -> Row:
    """A row of what has not run, with whatever columns are known of it."""
    if lacking := [key for key in KNOWN_OF_MISSING if key not in given]:
        raise ConfigError(f"Expected {where} to have {', '.join(lacking)}.")
    blank = {key: "" if key in WORDS else None for key in COLUMNS}
    return read_row({**blank, "target": Target.LABELS, **given, "status": Status.MISSING}, where)


def value_and_baseline(row: Row) -> tuple[float, float]:
    """The figures of a row that is done."""
    value, baseline = row["value"], row["baseline"]
    if value is None or baseline is None:
        raise ConfigError(f"Expected a finding that is done, got one that is {row['status'].value}.")
    return value, baseline


def order(row: Row) -> Order:
    """Undefended first, then by defence, strength (as numbers), attack, victim and seed."""
    setup = setup_of(row)
    names = (row["attack"], row["attacker"], row["victim"])
    return (not setup.is_open, setup.names, setup.order, setup.strength, *names, row["seed"], row["cell"])


def check_keys(given: Mapping[str, object], wanted: Iterable[str], where: str) -> None:
    """Refuse a mapping that lacks a key, or has one too many."""
    wanted = tuple(wanted)
    if not isinstance(given, Mapping):
        raise ConfigError(f"Expected {where} to be a mapping, got {given!r}.")
    if lacking := [key for key in wanted if key not in given]:
        raise ConfigError(f"Expected {where} to have {', '.join(lacking)}.")
    if unknown := [str(key) for key in given if key not in wanted]:
        raise ConfigError(f"Unknown key of {where}: {', '.join(unknown)}.")


def _word(value: object, key: str, where: str) -> str:
    if not isinstance(value, str):
        raise ConfigError(f"Expected {key} of {where} to be text, got {value!r}.")
    return value


def _number(value: Any, key: str, where: str) -> float | int | None:
    if value is None:
        return None
    try:
        number = float(value)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"Expected {key} of {where} to be a number, got {value!r}.") from error
    if not isfinite(number):
        return None
    return int(number) if key in COUNTS else number
