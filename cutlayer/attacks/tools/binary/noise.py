"""Noise: two-valued columns in noisy messages, told from others by moments that the noise is taken out of.

Messages have the same noise in all directions, so weak directions of the signal carry more of it. In
whitened rows the axis of variance v has noise share s^2 / v, a direction w the mean of the shares
under w^2. Normal noise leaves third and fourth cumulants alone, so those of the column
without noise follow, and with them J = kurtosis - skewness^2 - 1, which is zero for two values only
and at least 0.488 for a column with one peak.

Specification: binary-search, section 5.
"""

import numpy as np
import scipy

from cutlayer.attacks.tools.binary.polish import Bits, Floats, levels, lloyd, unit

FEWEST = 10  # directions without signal that noise is told by
SLACK = 1.05  # beyond the edges of the spectrum of noise alone
BELOW = 0.45  # J of a column that is taken for two-valued
APART = 0.025  # distance of distributions that is still a fit, beside what chance makes of so many rows
SAME = 0.9  # cosine of directions that are the same column
NEW = 0.05  # squared length of a direction outside those accepted
SKEWED = 0.15  # the same, per 1 + skewness^2
TINY = 1e-9  # noise share of messages without noise
DROWNED = 0.4  # noise share beyond which moments say nothing


def edge(values: Floats, rows: int) -> int | None:
    """The rank of the signal: where singular values become those of noise alone (Marchenko-Pastur), if they do."""
    variances = values**2 / rows
    for rank in range(1, len(variances) - FEWEST + 1):
        rest = variances[rank:]
        ratio = (len(rest) / rows) ** 0.5
        if ratio < 1 and _within(rest / rest.mean(), ratio):
            return rank
    return None


def _within(rest: Floats, ratio: float) -> bool:
    return bool(rest[0] <= SLACK * (1 + ratio) ** 2 and rest[-1] >= (1 - ratio) ** 2 / SLACK)


def likeness(values: Floats, share: Floats) -> Floats:
    """J of each column without its noise, over the bound for its skewness: below 1 it is taken for two-valued.

    Columns of unit variance. Sampling error of J grows with the skewness g, and so does J itself for
    skewed columns with one peak (a gamma law has J = 2 + g^2 / 2), hence the bound does. Infinite where
    noise drowns the column.
    """
    signal = np.where(share < DROWNED, 1 - share, np.nan)
    skewness = (values**3).mean(axis=0) / signal**1.5
    kurtosis = 3 + ((values**4).mean(axis=0) - 3) / signal**2
    bound = np.maximum(BELOW, SKEWED * (1 + skewness**2))
    return np.asarray(np.nan_to_num((kurtosis - skewness**2 - 1) / bound, nan=np.inf))


def distance(values: Floats, share: float) -> float:
    """The largest gap between the distribution of a column and that of two levels under normal noise (Kolmogorov).

    Moments alone are deceived by messages that are not linear: sums of saturated units have a low kurtosis.
    """
    share = max(share, TINY)
    signal = 1 - share
    low, high = levels(float((values**3).mean()) / signal**1.5)
    frequent = -low / (high - low)
    ordered = np.sort(values)
    below, above = (scipy.special.ndtr((ordered - signal**0.5 * level) / share**0.5) for level in (low, high))
    gap = (1 - frequent) * below + frequent * above - (np.arange(len(values)) + 0.5) / len(values)
    return float(np.abs(gap).max())


def threshold(values: Floats, share: float) -> float:
    """Where to cut a noisy two-valued column of unit variance: the midpoint, moved towards the rarer level."""
    signal = 1 - share
    low, high = levels(float((values**3).mean()) / signal**1.5)
    frequent = -low / (high - low)  # of the upper level, for the mean is zero
    odds = np.log((1 - frequent) / frequent)
    return float(signal**0.5 * (low + high) / 2 + share / (signal**0.5 * (high - low)) * odds)


class NoisyCatalogue:
    """The columns found under noise: lists what moments call two-valued, where a `Catalogue` tests exactly."""

    def __init__(self, points: Floats, shares: Floats) -> None:
        self.points = points
        self.shares = shares  # of noise, per axis
        self.directions: Floats = np.zeros((points.shape[1], 0))
        self.independent: Floats = self.directions

    def __len__(self) -> int:
        return int(self.directions.shape[1])

    @property
    def rank(self) -> int:
        """How many directions were found; no two are alike."""
        return int(self.directions.shape[1])

    @property
    def residuals(self) -> list[float]:
        """Share of each column's variance that the messages leave open."""
        out = []
        for bits in self.columns:
            fitted = self.points.T @ bits / len(bits)
            out.append(1 - float(fitted @ fitted) / max(float(bits.mean() * (1 - bits.mean())), 1e-12))
        return out

    @property
    def columns(self) -> Bits:
        """The columns found, a row each; the first row of the data is always 0."""
        bits = [self._bits(direction) for direction in self.directions.T]
        return np.array(bits, dtype=np.bool_).reshape(len(bits), len(self.points))

    def complement(self) -> Floats:
        """An orthonormal basis of all that is orthogonal to the found directions."""
        whole, _ = np.linalg.qr(np.column_stack([self.independent, np.eye(len(self.shares))]))
        return whole[:, self.rank : len(self.shares)]

    def offer(self, directions: Floats) -> None:
        """Take candidates whose J is below its bound, the lowest first, unless they are known."""
        directions = unit(directions)
        for _ in range(4):
            directions = unit(lloyd(self.points, directions)[0])
        scores = likeness(self.points @ directions, (self.shares[:, None] * directions**2).sum(axis=0))
        for place in np.argsort(scores, kind="stable"):
            if scores[place] >= 1:
                return
            direction = directions[:, [place]]
            rest = direction - self.independent @ (self.independent.T @ direction)
            known = np.abs(self.directions.T @ direction).max(initial=0) >= SAME or (rest**2).sum() <= NEW
            if not known and self._fits(direction[:, 0]):
                self.directions = np.column_stack([self.directions, direction])
                self.independent = np.column_stack([self.independent, unit(rest)])

    def _fits(self, direction: Floats) -> bool:
        apart = distance(self.points @ direction, float(self.shares @ direction**2))
        return apart < APART + float(len(self.points) ** -0.5)

    def _bits(self, direction: Floats) -> Bits:
        values = self.points @ direction
        bits: Bits = values > threshold(values, float(self.shares @ direction**2))
        bits ^= bits[0]
        return bits
