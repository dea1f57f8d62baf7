"""One run: a lower bound on epsilon from guesses of fair coins, all of them made in one run.

Steinke, Nasr, Jagielski, Privacy Auditing with One (1) Training Run (arXiv:2305.08846), Theorem 5.2 and its code in
Appendix D. Each of m coins decides one secret of a run: which of two labels a row has, or which of two values. Whoever
sees what the mechanism released guesses some of the coins and abstains on the others. If the mechanism is
(epsilon, delta)-private in each coin, so many right guesses are only so likely.
"""

import numpy as np
import numpy.typing as npt
from scipy.stats import binom

CONFIDENCE = 0.95
SHARES = (1.0, 0.5, 0.2, 0.1, 0.05, 0.02)  # of the coins that are guessed, the surest first

Array = npt.NDArray[np.float64]


def p_value(coins: int, guesses: int, right: int, epsilon: float, delta: float) -> float:
    """The largest chance of at least so many right guesses, if the mechanism is (epsilon, delta)-private."""
    truth = 1 / (1 + np.exp(-epsilon))  # how often randomised response is right
    beta = float(binom.sf(right - 1, guesses, truth))
    if not delta or not right:
        return min(1.0, beta)
    below = np.arange(1, right + 1)
    masses = np.cumsum(binom.pmf(right - below, guesses, truth)) / below  # P[right > X >= right - i] / i
    return min(1.0, beta + 2 * coins * delta * float(masses.max()))


def least_epsilon(coins: int, guesses: int, right: int, delta: float, chance: float) -> float:
    """The largest epsilon that so many right guesses refute, given how often that may be wrong; 0 if none."""
    if p_value(coins, guesses, right, 0.0, delta) >= chance:
        return 0.0
    low, high = 0.0, 1.0
    while p_value(coins, guesses, right, high, delta) < chance:
        low, high = high, 2 * high
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if p_value(coins, guesses, right, middle, delta) < chance else (low, middle)
    return low


def lower_bound(coins: Array, scores: Array, delta: float) -> float:
    """A bound that holds with 95 % confidence. Coins are -1 or 1; a score's sign is the guess, its size how sure it is.

    A score of 0 abstains. How many are guessed is tried in a few ways, and each gets its part of the 5 %.
    """
    scores = np.nan_to_num(scores, nan=0.0, posinf=0.0, neginf=0.0)
    order = np.argsort(-np.abs(scores), kind="stable")
    order = order[scores[order] != 0]
    hits = np.cumsum(np.sign(scores[order]) == coins[order])
    chance = (1 - CONFIDENCE) / len(SHARES)
    counts = {min(len(order), int(share * len(coins))) for share in SHARES} - {0}
    return max((least_epsilon(len(coins), n, int(hits[n - 1]), delta, chance) for n in counts), default=0.0)
