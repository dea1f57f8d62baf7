"""Accountant: the epsilon that Gaussian noise spends when the same secret is released again and again.

There is no credit for subsampling. Batches follow from the run's seed, which all parties know and run.json holds, so
nobody is left from whom it would hide who is in a batch. Everybody counts a row as often as it is released, and for
that case the answer is exact. Mixed mechanisms need no further accountant: each covers all ways of a secret, so they
do not add up (`privacy.stated_once`).
"""

from collections.abc import Callable
from functools import cache
from math import exp, inf, log, log1p, sqrt

import scipy

from cutlayer.blocks.gaussian_mechanism import rounding
from cutlayer.draws import STEPS


def gaussian_delta(mu: float, epsilon: float) -> float:
    """The least delta at which one Gaussian release of sensitivity / noise = mu is (epsilon, delta)-private.

    Balle and Wang (arXiv:1805.06530), Theorem 5. k releases of the same secret are one with mu * sqrt(k).
    """
    if mu == 0:
        return 0.0
    above = exp(float(scipy.special.log_ndtr(mu / 2 - epsilon / mu)))
    return max(0.0, above - exp(min(0.0, epsilon + float(scipy.special.log_ndtr(-mu / 2 - epsilon / mu)))))


def gaussian_epsilon(mu: float, delta: float) -> float:
    """The least epsilon of a Gaussian release of sensitivity / noise = mu; infinite without noise."""
    if mu == inf or delta <= 0:
        return inf
    high = 1.0
    while gaussian_delta(mu, high) > delta:
        high *= 2
    return _least(lambda epsilon: gaussian_delta(mu, epsilon) <= delta, high)


def renyi_epsilon(mu: float, delta: float) -> float:
    """An epsilon from Renyi divergences of order a below a mu^2 / 2, which discrete noise has in any dimension.

    Canonne, Kamath, Steinke (arXiv:2004.00010), Theorem 4 for the divergences and Proposition 12 for the conversion.
    """
    if mu == inf or delta <= 0:
        return inf

    def bound(log_order: float) -> float:
        beyond = exp(log_order)  # the order less 1
        order = 1 + beyond
        return order * mu * mu / 2 - log1p(1 / beyond) - (log(delta) + log(order)) / beyond

    found = scipy.optimize.minimize_scalar(bound, bounds=(-7.0, 14.0), method="bounded")
    return max(0.0, float(found.fun))  # any order is a bound


def grid_slack(mu: float, entries: int, steps: float) -> float:
    """By how much the delta of discrete noise may exceed that of continuous noise, over all `entries` released.

    Delta is the sum over the grid of f = max(0, p - e^epsilon q), where the continuous one is its integral. Replace the
    sums by integrals one coordinate at a time. With a grid of 1, a sum differs from its integral by no more than an
    eighth of the variation of f'. Where f is positive e^epsilon q is below p, so that |f''| integrates to at most
    (4 + mu^2) / steps^2, and the one kink of f on a line adds at most 0.4 mu / steps^2. Releases that follow each other
    add theirs up.
    """
    return entries * (4 + mu * mu + 0.4 * mu) / (8 * steps * steps)


def released_epsilon(noise: float, sensitivity: float, releases: int, delta: float, entries: int | None = 0) -> float:
    """Epsilon of releases whose noise is `noise` standard deviations where a secret moves them by `sensitivity`.

    With `entries`, how many numbers a secret moves in a release, noise is the discrete one of `gaussian_mechanism`;
    None: any number of them, and `sensitivity` counts their rounding.
    """
    if not releases or not sensitivity:
        return 0.0
    if not noise:
        return inf
    if entries is None:
        return renyi_epsilon(sensitivity / noise * sqrt(releases), delta)
    mu = sensitivity / noise + rounding(entries)
    exact = gaussian_epsilon(mu * sqrt(releases), delta - grid_slack(mu, entries * releases, STEPS))
    return min(exact, renyi_epsilon(mu * sqrt(releases), delta)) if entries else exact


@cache
def gaussian_noise(
    epsilon: float, delta: float, releases: int, sensitivity: float = 1.0, entries: int | None = 0
) -> float:
    """The least noise at which so many releases together are (epsilon, delta)-private."""
    if released_epsilon(inf, sensitivity, releases, delta, entries) > epsilon:
        return inf  # rounding alone spends more

    def enough(noise: float) -> bool:
        return noise > 0 and released_epsilon(noise, sensitivity, releases, delta, entries) <= epsilon

    high = sensitivity
    while not enough(high):
        high *= 2
    return _least(enough, high)


def _least(holds: Callable[[float], bool], high: float) -> float:
    """The least number at which something holds, from 0 to `high`, where it does."""
    low = 0.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
