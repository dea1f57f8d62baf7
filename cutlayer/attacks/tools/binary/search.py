"""Search: seeds of three kinds, polished and tested, until none leads out of the span of those found.

Many cheap starts find skewed columns, linear programmes find rare values and columns of discrete
tables, and the lift finds halves in high dimension. Each round draws away from the columns found. Last,
the span of the found columns is searched for further ones, such as the levels of a one-hot group of
which only sums were met. Silence is not a proof of absence.

Specification: binary-search, section 4.
"""

from collections.abc import Callable

import numpy as np

from cutlayer.attacks.tools.binary.catalogue import Catalogue
from cutlayer.attacks.tools.binary.clock import Clock
from cutlayer.attacks.tools.binary.lift import fit
from cutlayer.attacks.tools.binary.noise import NoisyCatalogue
from cutlayer.attacks.tools.binary.polish import RULES, Floats, Rule, Singles, climb, polish, unit
from cutlayer.attacks.tools.binary.polytope import maximise

SAMPLE, OUTER = 20_000, 1_000  # rows that seeds are grown on; rows far out that programmes heed too
STARTS = 300
PROGRAMMES = 12  # in a round
PENALTIES = (1.0, 4.0, 16.0)  # of the mean
FITS = (100, 200, 400)  # steps of the lift: more as nothing is found
EIGENVECTORS = (12, 24)
STALE = 3  # rounds without gain that end a stage
PROMISING = 0.9  # R^2 on the sample of a column worth a test on all rows; others end near 0.7
LOW = 30  # rank up to which random starts are near enough to every column
CHEAP = 100  # rank up to which linear programmes come before the lift


class Search:
    """A search that fills a catalogue: the rows that seeds are grown on, the random stream, the time."""

    def __init__(self, catalogue: Catalogue | NoisyCatalogue, rng: np.random.Generator, clock: Clock) -> None:
        self.catalogue, self.rng, self.clock = catalogue, rng, clock
        self.least = 0 if isinstance(catalogue, NoisyCatalogue) else PROMISING
        points = catalogue.points
        sample = np.sort(rng.permutation(len(points))[:SAMPLE])
        outer = np.argsort(-np.einsum("ij,ij->i", points, points), kind="stable")[:OUTER]
        self.fast: Singles = points[sample].astype(np.float32)
        self.wide = np.column_stack([points[rows := np.union1d(sample, outer)], np.ones(len(rows))])

    def run(self) -> None:
        """Fill the catalogue. Under noise no column stays between two walls, so there are no programmes."""
        self._repeat(self.skewed, 1)
        self._repeat(self.climbed, 1)
        if isinstance(self.catalogue, NoisyCatalogue):
            self._repeat(self.climbed if self.fast.shape[1] <= LOW else self.lifted, STALE)
            return
        stages = [self.programmed, self.lifted]
        for stage in stages if self.fast.shape[1] <= CHEAP else stages[::-1]:
            self._repeat(stage, STALE)
        separate(self.catalogue)
        for _ in range(STALE):
            if self.catalogue.rank > 1:
                self._grow(self._drawn(self.catalogue.independent))

    def _repeat(self, stage: Callable[[int], None], most: int) -> None:
        stale = 0
        while stale < most and not self.clock.over and self.catalogue.rank < self.fast.shape[1]:
            before = self.catalogue.rank
            stage(stale)
            stale = 0 if self.catalogue.rank > before else stale + 1

    def skewed(self, _: int) -> None:
        """The levels of one-hot groups come before their sums, for they are rarer."""
        self._grow(self._drawn(self.catalogue.complement()), ("skewness",))

    def climbed(self, _: int) -> None:
        """Starts from everywhere but the found directions."""
        self._grow(self._drawn(self.catalogue.complement()))

    def programmed(self, _: int) -> None:
        """Columns in [0, 1] that are large on some row and small on average."""
        for number in range(PROGRAMMES):
            if self.clock.over:
                return
            known = self.catalogue.independent
            target = self.wide[self.rng.integers(len(self.wide))].copy()
            target[:-1] -= known @ (known.T @ target[:-1])
            target[-1] -= PENALTIES[number % len(PENALTIES)]
            bits = maximise(self.wide, target) > 0.5
            self.catalogue.offer(self.wide[:, :-1].T @ (bits - bits.mean())[:, None])

    def lifted(self, stale: int) -> None:
        """Starts from the strongest eigenvectors of the lift."""
        vectors = fit(self.fast, FITS[stale], self.catalogue.independent.astype(np.float32), self.clock)
        for count in EIGENVECTORS:
            if not self.clock.over:
                self._grow(self._drawn(vectors[:, :count]))

    def _drawn(self, basis: Floats | Singles) -> Singles:
        drawn = basis @ self.rng.standard_normal((basis.shape[1], STARTS))
        return unit(drawn).astype(np.float32)

    def _grow(self, starts: Singles, rules: tuple[Rule, ...] = RULES) -> None:
        for rule in rules:
            if not self.clock.over:
                ends, explained = polish(self.fast, climb(self.fast, starts, rule))
                self.catalogue.offer(ends[:, explained > self.least].astype(np.float64))


def separate(catalogue: Catalogue) -> None:
    """Add what nested columns leave between them: of a one-hot group any sum is found, the levels are wanted."""
    columns = catalogue.columns
    if not len(columns):
        return
    columns ^= columns.mean(axis=1, keepdims=True) > 0.5
    patterns, where = np.unique(np.packbits(columns, axis=0).T, axis=0, return_inverse=True)  # rows alike count once
    sets = np.unpackbits(patterns.T, axis=0, count=len(columns)).astype(np.float32)
    overlap = sets @ sets.T
    while True:
        size = np.diagonal(overlap)
        nested = (overlap == size[:, None]) & (size > 0)[:, None] & ~np.eye(len(overlap), dtype=np.bool_)
        if not nested.any():
            break
        outer = int(nested.any(axis=0).argmax())
        inner = int((nested[:, outer] * size).argmax())
        sets[outer] -= sets[inner]
        overlap[outer] = overlap[:, outer] = sets @ sets[outer]
    levels = list(sets > 0.5)
    apart = overlap == 0
    for start in range(len(sets)):  # the level that is none of those which exclude each other
        family = [start]
        for place in np.flatnonzero(apart[start]):
            if apart[place, family].all():
                family.append(int(place))
        levels.append(sets[family].sum(axis=0) < 0.5)
    for level in {bits.tobytes(): bits for bits in levels}.values():
        catalogue.test(level[where.ravel()])
