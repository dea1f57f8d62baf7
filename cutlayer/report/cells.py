"""Cells: findings that differ in the seed only, as one mean with its interval; and what they sum up to."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

from cutlayer.finding import Status, Target
from cutlayer.metrics.forms import measure_named
from cutlayer.metrics.interval import mean_interval
from cutlayer.metrics.measure import Measure
from cutlayer.metrics.utility import Utility
from cutlayer.report.advantage import (
    Estimate,
    Standing,
    at_baseline,
    heat,
    over_seeds,
    standing,
    value_over_seeds,
)
from cutlayer.report.record import Extra, Record
from cutlayer.report.row import Row, value_and_baseline
from cutlayer.setup import Setup, setup_of, setup_of_columns

K = TypeVar("K")
T = TypeVar("T")
RANK = (Status.DONE, Status.FAILED, Status.MISSING, Status.DOES_NOT_APPLY)  # which status speaks for a cell


@dataclass(frozen=True)
class MatrixCell:
    """One attack on one victim under one setup, over all seeds."""

    defence: str
    strength: str
    attack: str
    target: Target
    attacker: str
    victim: str
    rows: tuple[Row, ...]

    @property
    def setup(self) -> str:
        """The defence with its settings."""
        return setup_of_columns(self.defence, self.strength).spelling

    @property
    def is_open(self) -> bool:
        """Whether there was no defence."""
        return setup_of_columns(self.defence, self.strength).is_open

    @cached_property
    def done(self) -> tuple[Row, ...]:
        """The seeds that gave a figure."""
        return tuple(row for row in self.rows if row["status"] is Status.DONE)

    @property
    def first(self) -> Row:
        """The finding that speaks for the cell where all agree."""
        return min(self.rows, key=lambda row: RANK.index(row["status"]))

    @property
    def status(self) -> Status:
        """Done if any seed is."""
        return Status(self.first["status"])

    @property
    def metric(self) -> str:
        """What the attack is measured by."""
        return str(self.first["metric"])

    @property
    def measure(self) -> Measure:
        """How the metric is read; of cells that gave a figure."""
        return measure_named(self.metric)

    @cached_property
    def value(self) -> Estimate:
        """Its figure."""
        return value_over_seeds(self.done)

    @cached_property
    def gain(self) -> Estimate:
        """Its advantage over the baseline."""
        return over_seeds(self.done)

    @cached_property
    def baseline(self) -> float:
        """The best guess without the view, mean over seeds."""
        return mean_interval([value_and_baseline(row)[1] for row in self.done])[0]

    @property
    def accuracy(self) -> Estimate | None:
        """The model's utility over the same seeds."""
        mean = estimate(row["accuracy"] for row in self.done)
        if mean is None or mean.low is None or mean.high is None:
            return mean
        least, most = Utility.bounds_of(self.done[0]["utility_metric"])
        return replace(mean, low=max(least, mean.low), high=min(most, mean.high))

    @property
    def standing(self) -> Standing:
        """Above, at or below the baseline."""
        return standing(self.metric, self.gain)

    @property
    def harmless(self) -> bool:
        """Whether nothing was shown to leak."""
        return at_baseline(self.metric, self.gain)

    @property
    def heat(self) -> float:
        """For the colour, and for finding the worst attack."""
        return heat(self.metric, self.gain.mean)

    @property
    def about(self) -> str:
        """Who attacks whose what."""
        verb = "forces the outcome of" if self.target is Target.OUTCOME else f"learns the {self.target} of"
        return f"{self.attacker or 'the attacker'} {verb} {self.victim or 'the others'}"

    @property
    def gaps(self) -> dict[tuple[Status, str], int]:
        """Seeds without a figure, by status and reason."""
        counts: dict[tuple[Status, str], int] = {}
        for row in self.rows:
            if row["status"] is not Status.DONE:
                why = (row["status"], row["reason"])
                counts[why] = counts.get(why, 0) + 1
        return counts


def estimate(values: Iterable[float | None]) -> Estimate | None:
    """Mean and interval of what is known; None if nothing is."""
    known = [value for value in values if value is not None]
    if not known:
        return None
    mean, low, high = mean_interval(known)
    return Estimate(mean, low, high) if len(known) > 1 else Estimate(mean, None, None)


def cells_of(record: Record) -> list[MatrixCell]:
    """Group findings. A finding without a victim (it did not apply) joins those whom the attack has elsewhere."""
    lines: dict[tuple[str, Target], list[tuple[str, str]]] = {}  # (attack, target) -> its (attacker, victim) pairs
    for row in record.every:
        if row["victim"]:
            pairs = lines.setdefault((row["attack"], row["target"]), [])
            if (row["attacker"], row["victim"]) not in pairs:
                pairs.append((row["attacker"], row["victim"]))
    known = dict(lines.keys())
    groups: dict[tuple[str, str, str, Target, str, str], list[Row]] = {}
    for row in record.every:
        attack, target = row["attack"], row["target"]
        if row["status"] is Status.MISSING and not row["victim"]:
            target = known.get(attack, target)
        pairs = [(row["attacker"], row["victim"])]
        if not row["victim"]:
            pairs = lines.get((attack, target), pairs)
        for attacker, victim in pairs:
            key = (row["defence"], row["strength"], attack, target, attacker, victim)
            groups.setdefault(key, []).append(row)
    return [MatrixCell(*key, tuple(rows)) for key, rows in groups.items()]


def matrix(cells: Sequence[MatrixCell]) -> tuple[list[str], list[tuple[MatrixCell, dict[str, MatrixCell]]]]:
    """Setups, and per attack and victim a line of cells by setup; lines are ordered by threat, then attack."""
    setups = unique(cell.setup for cell in cells)
    lines: dict[tuple[int, str, str, str], dict[str, MatrixCell]] = {}
    for cell in cells:
        key = (list(Target).index(cell.target), cell.attack, cell.attacker, cell.victim)
        lines.setdefault(key, {})[cell.setup] = cell
    return setups, [(next(iter(line.values())), line) for _, line in sorted(lines.items())]


def threats(cells: Iterable[MatrixCell]) -> list[Target]:
    """Targets that occur, in their usual order."""
    present = {cell.target for cell in cells}
    return [target for target in Target if target in present]


def worst(cells: Iterable[MatrixCell]) -> MatrixCell | None:
    """The attack that gets furthest; None if none gave a figure."""
    done = [cell for cell in cells if cell.done]
    return max(done, key=lambda cell: (cell.heat, cell.gain.mean)) if done else None


def by_setup(cells: Iterable[MatrixCell]) -> dict[str, list[MatrixCell]]:
    """Cells of each setup."""
    return group(cells, lambda cell: cell.setup)


def group(cells: Iterable[MatrixCell], key: Callable[[MatrixCell], K]) -> dict[K, list[MatrixCell]]:
    """Cells by a key, in order."""
    groups: dict[K, list[MatrixCell]] = {}
    for cell in cells:
        groups.setdefault(key(cell), []).append(cell)
    return groups


def unique(items: Iterable[K]) -> list[K]:
    """Each once, in order."""
    return list(dict.fromkeys(items))


def per_run(record: Record) -> dict[Setup, dict[int, Row]]:
    """One row per setup and seed: what belongs to the training, not to an attack."""
    runs: dict[Setup, dict[int, Row]] = {}
    for row in record.rows:
        seeds = runs.setdefault(setup_of(row), {})
        if row["accuracy"] is not None and row["seed"] not in seeds:
            seeds[row["seed"]] = row
    return runs


def extras(record: Record, cell: MatrixCell, pick: Callable[[Extra], T | None]) -> list[tuple[int, T]]:
    """(seed, what is picked of its extra) of a cell's seeds that have it."""
    pairs = [(row["seed"], pick(record.extra(row))) for row in cell.done]
    return [(seed, value) for seed, value in pairs if value is not None]
