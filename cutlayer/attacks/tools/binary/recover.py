"""Recover: every two-valued column in the span of linear messages, in polynomial time, and how sure that is.

Specification: binary-search, sections 1 to 6.
"""

from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike
from torch import Tensor

from cutlayer._validate import one_of, positive
from cutlayer.attacks.tools.binary.catalogue import Catalogue
from cutlayer.attacks.tools.binary.certificate import allowance, leak, unclear
from cutlayer.attacks.tools.binary.clock import Clock
from cutlayer.attacks.tools.binary.enumeration import TOLERANCE, binary_vectors
from cutlayer.attacks.tools.binary.lattice import integer_columns
from cutlayer.attacks.tools.binary.noise import NoisyCatalogue, edge
from cutlayer.attacks.tools.binary.polish import Bits, Floats
from cutlayer.attacks.tools.binary.relations import NULL, relations, unknowns
from cutlayer.attacks.tools.binary.rounding import Rounding, rounding_of
from cutlayer.attacks.tools.binary.search import Search
from cutlayer.attacks.tools.binary.span import FLOOR, Span, span_of
from cutlayer.errors import ConfigError, DataError
from cutlayer.rng import numpy_generator

Method = Literal["auto", "enumerate", "null-space", "lifted", "lattice", "noisy"]
SMALL, QUICK = 20, 40  # ranks up to which all candidates are tried, and an exact search is a matter of seconds
SHARE = 0.9  # unknowns per row up to which relations are solved for
ROUNDING = 200  # squares of the rounding error that a relation may miss by
FLOAT32 = 6e-8  # rounding of a message
ROWS, FEWEST = 3, 4_000  # rows per unknown, and in all, that relations are solved for on
SPEED = 3e10  # products added up in a second, on a core or two
PLAIN = "no two-valued column lies in the span"


@dataclass(frozen=True)
class Recovered:
    """Two-valued columns of a span, and how sure it is that there are no others."""

    columns: Bits  # found x rows, each up to complement, the most certain first
    residuals: Floats  # share of each column's variance that the span leaves open
    certified: bool | None  # True: these are all that the messages hold, down to what the note says. None: others may
    note: str  # what is known about completeness, in a sentence
    method: str  # the way they were found
    rank: int  # of the centred messages


def recover_binary(
    embeddings: ArrayLike | Tensor,
    method: Method = "auto",
    seconds: float = 60,
    seed: int = 0,
    *,
    rank: int | None = None,
    noise: float | None = None,
) -> Recovered:
    """Find the two-valued columns that messages Z = X W^T + b hold, knowing neither X nor W.

    A column stands for its complement too, for the messages are centred: any bias and any coding of
    the two values will do. "auto" tries all candidates up to rank 20, solves for quadratic relations
    where there are rows enough (rank 132 for 10,000), and else searches; noise is recognised by
    singular values that end in a plain and not at a cliff. `rank` and `noise` (the standard deviation)
    are read off these unless given. `seconds` ends a search; with time left the seed decides all.

    Completeness is certified only if every candidate was tried and what the messages leave over is rounding of
    the size that their own numbers show (see `rounding`). Messages no wider than the table, noise, half
    precision, few digits and columns of very unequal size are thus not certified, and the note says why.
    """
    one_of("method", method, get_args(Method))
    positive("seconds", seconds)
    clock = Clock(seconds)
    rng = numpy_generator(seed, "binary search")
    span = span_of(embeddings, centred=True, rank=rank)
    if method == "noisy" or noise is not None:
        return _noisy(span, rank, noise, rng, clock)
    rounding = rounding_of(embeddings)
    if rounding.span is not None and rank in (None, rounding.rank):
        fine = method != "auto" or not rounding.doubt
        recovered = _exact(rounding.span, rounding, method, rng, clock) if fine or rounding.rank <= QUICK else None
        if recovered and (fine or len(recovered.columns)):
            return recovered
    doubt = rounding.doubt or f"rank={rank} was asked for, and {rounding.rank} directions stand above the rounding"
    rounding = replace(rounding, doubt=doubt, turn=_rounding(span))
    no_cliff = span.rank == len(span.values)  # noise, or messages no wider than the span
    if method == "auto" and rank is None and no_cliff:
        signal = edge(span.values, len(span.basis))
        if signal is not None:
            recovered = _exact(span, rounding, method, rng, clock) if span.rank <= QUICK else None
            return recovered if recovered and len(recovered.columns) else _noisy(span, signal, noise, rng, clock)
    recovered = _exact(span, rounding, method, rng, clock)
    if method == "auto" and rank is None and not len(recovered.columns) and span.rank < rounding.rank <= QUICK:
        if len(span.basis) > rounding.rank + 1 and span.values[rounding.rank - 1] > FLOOR * span.values[0]:
            whole = span_of(embeddings, centred=True, rank=rounding.rank)  # the cliff may be one of large numbers
            return _exact(whole, replace(rounding, turn=_rounding(whole)), method, rng, clock)
    return recovered


def _exact(span: Span, rounding: Rounding, method: Method, rng: np.random.Generator, clock: Clock) -> Recovered:
    if method == "enumerate" or (method == "auto" and span.rank <= SMALL):
        return _enumerated(span, rounding, rng, clock)
    if method == "null-space" or (method == "auto" and _solvable(span, clock.seconds)):
        return _related(span, rounding, rng, clock)
    if method == "lattice":
        return _reduced(span, rng, clock)
    return _searched(span, rng, clock)


def _enumerated(span: Span, rounding: Rounding, rng: np.random.Generator, clock: Clock) -> Recovered:
    catalogue = _catalogue(span)
    tolerance, doubt = allowance(span, rounding)
    if not _tried(catalogue, span, tolerance):
        return _searched(span, rng, clock)
    return _complete(catalogue, f"all 2^{span.rank} candidates were tried", doubt, rounding, "enumerate", span.rank)


def _related(span: Span, rounding: Rounding, rng: np.random.Generator, clock: Clock) -> Recovered:
    """Route A: solve for the relations, then look for columns where they allow any."""
    if unknowns(span.rank) > len(span.basis):
        raise DataError(
            f"Expected more rows than the {unknowns(span.rank)} products of rank {span.rank}, got {len(span.basis)}; "
            "use method='lifted'."
        )
    points = span.basis * len(span.basis) ** 0.5
    null = max(NULL, ROUNDING * rounding.turn**2)
    enough = max(ROWS * unknowns(span.rank), FEWEST)
    sample = points if len(points) <= enough else points[np.sort(rng.choice(len(points), enough, replace=False))]
    known = relations(sample, null)
    doubt = rounding.doubt or unclear(known, null)
    if not known.nullity:
        return _complete(Catalogue(points), "nullity 0", doubt, rounding, "null-space", span.rank)
    inside = Span(span.basis @ known.directions, span.values, centred=True)
    where = f"{known.nullity} relations confine two-valued columns to {inside.rank} of {span.rank} dimensions"
    if inside.rank <= SMALL:
        tolerance, far = allowance(inside, rounding, leak(points, known, rounding))
        catalogue = _catalogue(span)
        if _tried(catalogue, inside, tolerance):
            where = f"{where}, and all candidates there were tried"
            return _complete(catalogue, where, doubt or far, rounding, "null-space", span.rank)
    catalogue = _catalogue(inside)
    Search(catalogue, rng, clock).run()
    return _recovered(catalogue, None, f"{where}; completeness is not certified", "null-space", span.rank)


def _searched(span: Span, rng: np.random.Generator, clock: Clock) -> Recovered:
    """Route B: too few rows to solve for relations."""
    catalogue = _catalogue(span)
    Search(catalogue, rng, clock).run()
    return _recovered(
        catalogue, None, "columns that were not found may exist: a search proves no absence", "lifted", span.rank
    )


def _reduced(span: Span, rng: np.random.Generator, clock: Clock) -> Recovered:
    """Route C: integer columns first, then two-valued ones in their span."""
    whole = integer_columns(span, rng)
    catalogue = _catalogue(span)
    spread = whole[:, np.ptp(whole, axis=0) > 0]
    if spread.shape[1]:
        inside = span_of(spread, centred=True)
        if inside.rank > SMALL or not _tried(catalogue, inside, TOLERANCE):
            for bits in _searched(inside, rng, clock).columns:
                catalogue.test(bits)
    note = f"{spread.shape[1]} integer columns span those found; others may exist"
    return _recovered(catalogue, None, note, "lattice", span.rank)


def _noisy(span: Span, rank: int | None, noise: float | None, rng: np.random.Generator, clock: Clock) -> Recovered:
    """Noise: nothing is exact, so what is found is likely, and nothing is certified."""
    rows = len(span.basis)
    rank = rank or edge(span.values, rows) or span.rank
    variances = span.values**2 / rows
    if noise is None and len(variances) == rank:
        raise ConfigError("Expected directions without signal to tell the noise by; give noise= its deviation.")
    level = noise**2 if noise is not None else float(variances[rank:].mean())
    catalogue = NoisyCatalogue(span.basis[:, :rank] * rows**0.5, level / variances[:rank])
    Search(catalogue, rng, clock).run()
    note = f"noise of deviation {level**0.5:.3g}: columns are likely, not exact, and others may exist"
    return _recovered(catalogue, None, note, "noisy", rank)


def _tried(catalogue: Catalogue, span: Span, tolerance: float) -> bool:
    """Try all candidates of a span, unless more pass than can be listed: of a one-hot group every sum does."""
    try:
        vectors = binary_vectors(span, tolerance=tolerance)
    except DataError:
        return False
    for bits in vectors.T:
        catalogue.test(bits)
    return True


def _solvable(span: Span, seconds: float) -> bool:
    """Whether there are rows enough to solve for relations, and time, by a count of operations and not by the clock."""
    count = unknowns(span.rank)
    work = min(len(span.basis), max(ROWS * count, FEWEST)) * count**2
    return count <= SHARE * len(span.basis) and work <= seconds * SPEED


def _catalogue(span: Span) -> Catalogue:
    return Catalogue(span.basis * len(span.basis) ** 0.5)


def _rounding(span: Span) -> float:
    """Rounding of the messages over the weakest direction: the next singular value, or what float32 would make it."""
    wider = len(span.values) > span.rank
    return float((span.values[span.rank] if wider else FLOAT32 * span.values[0]) / span.values[span.rank - 1])


def _complete(catalogue: Catalogue, note: str, doubt: str, rounding: Rounding, method: str, rank: int) -> Recovered:
    """What a search that overlooks nothing found: all there is, unless something about the messages is in doubt."""
    if doubt:
        nothing = "" if len(catalogue) else ": no two-valued column was found"
        return _recovered(catalogue, None, f"{note}{nothing}; not certified: {doubt}", method, rank)
    nothing = "" if len(catalogue) else f": {PLAIN}"
    limit = f"down to {rounding.faint:.0e} of the strongest direction"
    return _recovered(catalogue, True, f"{note}{nothing}, {limit}", method, rank)


def _recovered(
    catalogue: Catalogue | NoisyCatalogue, certified: bool | None, note: str, method: str, rank: int
) -> Recovered:
    residuals = np.array(catalogue.residuals, dtype=np.float64)
    order = np.argsort(residuals, kind="stable")
    return Recovered(catalogue.columns[order], residuals[order], certified, note, method, rank)
