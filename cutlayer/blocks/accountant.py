"""Accountant: the epsilon that Gaussian noise spends, with and without credit for subsampling.

Subsampling does not confuse a peer, who knows which rows are in a batch: for a peer a row is simply released as often
as there are epochs, and for that case the answer is exact. Outsiders do not know it, and for
them there is the usual bound by Renyi divergences of the subsampled Gaussian.
"""

from collections.abc import Callable
from math import exp, inf, lgamma, log, log1p, sqrt

import scipy

ORDERS = (*range(2, 65), 80, 96, 128, 192, 256, 512, 1024)  # of the Renyi divergences that are tried


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
    if mu == inf:
        return inf
    high = 1.0
    while gaussian_delta(mu, high) > delta:
        high *= 2
    return _least(lambda epsilon: gaussian_delta(mu, epsilon) <= delta, high)


def gaussian_noise(epsilon: float, delta: float, releases: int, sensitivity: float = 1.0) -> float:
    """The least noise at which so many releases together are (epsilon, delta)-private."""
    high = sensitivity

    def enough(noise: float) -> bool:
        return noise > 0 and gaussian_delta(sensitivity * sqrt(releases) / noise, epsilon) <= delta

    while not enough(high):
        high *= 2
    return _least(enough, high)


def sampled_epsilon(noise: float, rate: float, steps: int, delta: float) -> float:
    """Epsilon for those who do not know who is in a batch: Poisson batches of a share `rate` of the rows.

    Mironov et al. (arXiv:1908.10530), whole orders, a row more or less; converted by Balle et al.
    (arXiv:1905.09982), Theorem 21.
    """
    if noise == 0:
        return inf
    if rate >= 1:
        return gaussian_epsilon(sqrt(steps) / noise, delta)
    spent: list[float] = [
        steps * _renyi(noise, rate, order) + log1p(-1 / order) - (log(delta) + log(order)) / (order - 1)
        for order in ORDERS
    ]
    return max(0.0, min(spent))


def _renyi(noise: float, rate: float, order: int) -> float:
    """Renyi divergence of one step of the subsampled Gaussian, of sensitivity 1."""
    terms = [
        lgamma(order + 1)
        - lgamma(k + 1)
        - lgamma(order - k + 1)
        + (order - k) * log1p(-rate)
        + k * log(rate)
        + k * (k - 1) / (2 * noise * noise)
        for k in range(order + 1)
    ]
    top = max(terms)
    return (top + log(sum(exp(term - top) for term in terms))) / (order - 1)


def _least(holds: Callable[[float], bool], high: float) -> float:
    """The least number at which something holds, from 0 to `high`, where it does."""
    low = 0.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
