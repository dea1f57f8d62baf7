"""Search: seeds of three kinds, polished and tested, until none brings anything new.

Many cheap starts find skewed columns; linear programmes find rare values and columns of
discrete tables; the lift finds halves in high dimension. Each round draws away from what was found.
Silence is not a proof of absence.

Specification: binary-search, section 4.
"""

import numpy as np

from cutlayer.binary.clock import Clock
from cutlayer.binary.ledger import Ledger
from cutlayer.binary.lift import fit
from cutlayer.binary.polish import Floats, Singles, climb, polish
from cutlayer.binary.polytope import maximise

SAMPLE = 20_000  # rows that seeds are grown on
STARTS = 300
CLIMBS = 15
PROGRAMMES = 12  # per round
PENALTIES = (1.0, 4.0, 16.0)  # of the mean
FITS = (100, 200, 400)  # steps of the lift: more as nothing is found
STALE = 3  # rounds without gain that end a stage
CHEAP = 100  # rank up to which linear programmes come first
EIGEN = (12, 24)


def search(ledger: Ledger, rng: np.random.Generator, clock: Clock) -> None:
    """Fill a ledger."""
    points = ledger.points
    if len(points) > SAMPLE:
        points = points[np.sort(rng.choice(len(points), SAMPLE, replace=False))]
    fast = points.astype(np.float32)
    while not clock.over and _climbed(ledger, fast, rng):
        pass
    stages = [_programmes, _lifted]
    for stage in stages if points.shape[1] <= CHEAP else stages[::-1]:
        stale = 0
        while not clock.over and stale < STALE:
            stale = 0 if stage(ledger, fast, stale, rng, clock) else stale + 1
    _close(ledger)


def _close(ledger: Ledger) -> None:
    """Add what nested columns leave between them: of a one-hot group any sum is found, the levels are wanted."""
    if not len(ledger):
        return
    columns = ledger.columns
    columns ^= columns.mean(axis=1, keepdims=True) > 0.5
    as_numbers = columns.astype(np.float32)
    both = as_numbers @ as_numbers.T
    while True:
        size = np.diagonal(both)
        nested = (both == size[:, None]) & (size > 0)[:, None] & ~np.eye(len(both), dtype=np.bool_)
        if not nested.any():
            break
        outer = int(nested.any(axis=0).argmax())
        inner = int((nested[:, outer] * size).argmax())
        as_numbers[outer] -= as_numbers[inner]
        both[outer] = both[:, outer] = as_numbers @ as_numbers[outer]
    for bits in as_numbers > 0.5:
        ledger.test(bits)


def _climbed(ledger: Ledger, fast: Singles, rng: np.random.Generator) -> int:
    complement = ledger.complement()
    starts = (complement @ rng.standard_normal((complement.shape[1], STARTS))).astype(np.float32)
    return _grow(ledger, fast, starts)


def _grow(ledger: Ledger, fast: Singles, starts: Singles) -> int:
    gained = 0
    for rule in ("skewness", "kurtosis"):
        gained += ledger.offer(polish(fast, climb(fast, starts, rule, CLIMBS)).astype(np.float64))
    return gained


def _programmes(ledger: Ledger, fast: Singles, stale: int, rng: np.random.Generator, clock: Clock) -> int:
    points = ledger.points
    rows = _rows(points, rng)
    wide = np.column_stack([points[rows], np.ones(len(rows))])
    gained = 0
    for number in range(PROGRAMMES):
        if clock.over:
            break
        found = ledger.independent()
        target = wide[rng.integers(len(rows))].copy()
        target[:-1] -= found @ (found.T @ target[:-1])
        target[-1] -= PENALTIES[number % len(PENALTIES)]
        values = maximise(wide, target)
        bits = values > 0.5
        gained += ledger.offer((points[rows].T @ (bits - bits.mean()))[:, None])
    return gained


def _rows(points: Floats, rng: np.random.Generator) -> np.ndarray:
    leverage = (points * points).sum(axis=1)
    return np.unique(np.concatenate([rng.permutation(len(points))[:10000], np.argsort(-leverage)[:1000]]))


def _lifted(ledger: Ledger, fast: Singles, stale: int, rng: np.random.Generator, clock: Clock) -> int:
    vectors = fit(fast, FITS[stale], ledger.independent().astype(np.float32))
    gained = 0
    for many in EIGEN:
        if clock.over:
            break
        starts = vectors[:, :many] @ rng.standard_normal((many, STARTS)).astype(np.float32)
        gained += _grow(ledger, fast, starts)
    return gained
