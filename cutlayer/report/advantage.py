"""How far an attack gets: 0 at its baseline (the best guess without the view), 1 at perfect.

Figures in unlike units, an accuracy and an error say, become comparable; and an attack that learned
nothing is at 0 whatever its metric. Below 0 it did worse than guessing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from math import sqrt

from cutlayer.metrics.forms import measure_named
from cutlayer.metrics.interval import mean_interval
from cutlayer.report.row import Row, value_and_baseline

ROUNDING = 1e-12


class Standing(Enum):
    """Where an attack ends, as far as its interval can tell."""

    ABOVE = "above its baseline"
    AT = "within its interval of the baseline"
    BELOW = "below its baseline"
    TURNED = "below its baseline; turned around, it would be above"


@dataclass(frozen=True)
class Estimate:
    """A mean with its 95% interval; without one where a single measurement has no spread to speak of."""

    mean: float
    low: float | None
    high: float | None


def advantage(metric: str, value: float, baseline: float) -> float:
    """The share of the way from the baseline to perfect; 0 where the baseline is perfect already."""
    return measure_named(metric).advantage(value, baseline)


def of_row(row: Row) -> float:
    """The advantage of one finding."""
    return advantage(row["metric"], *value_and_baseline(row))


def over_seeds(rows: Sequence[Row]) -> Estimate:
    """Mean advantage of the same cell over seeds, paired with each seed's own baseline.

    One seed has the interval of its own rows or batches, where it measured several.
    """
    gains = [of_row(row) for row in rows]
    if len(rows) > 1:
        return Estimate(*mean_interval(gains))
    ends, (_, baseline) = _interval(rows[0]), value_and_baseline(rows[0])
    if ends is None:
        return Estimate(gains[0], None, None)
    low, high = sorted(advantage(rows[0]["metric"], end, baseline) for end in ends)
    return Estimate(gains[0], low, high)


def value_over_seeds(rows: Sequence[Row]) -> Estimate:
    """Mean figure of the same cell over seeds; its interval is cut to what the metric can reach."""
    values = [value_and_baseline(row)[0] for row in rows]
    if len(rows) > 1:
        mean, low, high = mean_interval(values)
        least, most = measure_named(rows[0]["metric"]).bounds
        return Estimate(mean, max(least, low), min(most, high))
    return Estimate(values[0], *(_interval(rows[0]) or (None, None)))


def _interval(row: Row) -> tuple[float, float] | None:
    """The interval of a single finding, if it measured more than once."""
    low, high = row["low"], row["high"]
    return (low, high) if low is not None and high is not None and low < high else None


def standing(metric: str, gain: Estimate) -> Standing:
    """Where the attack stands: its interval decides, or the bare figure where there is none."""
    low = gain.mean if gain.low is None else gain.low
    high = gain.mean if gain.high is None else gain.high
    if low > ROUNDING:
        return Standing.ABOVE
    if high < -ROUNDING:
        return Standing.TURNED if measure_named(metric).two_sided else Standing.BELOW
    return Standing.AT


def at_baseline(metric: str, gain: Estimate) -> bool:
    """Whether an attack is within its interval of the baseline, or below it to no use: nothing was shown to leak."""
    return standing(metric, gain) in (Standing.AT, Standing.BELOW)


def heat(metric: str, gain: float) -> float:
    """What a colour shows: the advantage, cut to 0 … 1; of a two-sided metric its size."""
    return measure_named(metric).heat(gain)


def capability(leak: float, accuracy: float, ideal: float, weight: float = 0.5) -> float:
    """Defence capability score (DCS; Zou et al., VFLAIR): 1 for a defence that leaks nothing and costs nothing.

    1 / (1 + d), d the distance to that ideal: `leak` counted as the way to perfect, accuracy against `ideal`,
    the undefended model's; `weight` is the accuracy's share.
    """
    return 1 / (1 + sqrt((1 - weight) * leak**2 + weight * (accuracy - ideal) ** 2))
