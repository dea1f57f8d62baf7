"""Binary unmask: take fabricated bits out of linear messages, then read the columns that are nearly in what is left."""

from typing import Any, ClassVar

import numpy as np
import scipy
import torch
from numpy.typing import NDArray
from torch import Generator

from cutlayer._validate import at_least
from cutlayer.attack import Asks, Attack, Form, Guess, Target
from cutlayer.attacks.tools.binary.enumeration import Bits, binary_vectors
from cutlayer.attacks.tools.binary.span import Floats, Real, Span, span_of
from cutlayer.attacks.tools.binary.visible import columns, messages, not_own, with_own
from cutlayer.defence import Role
from cutlayer.errors import DataError, Inapplicable
from cutlayer.view import View

ENUMERATED = 20  # rank up to which exact columns are looked for by trying all bits; beyond, the search alone
WIDER = 2  # times as many directions as columns are searched too, where messages have them
CLEAR = 4.0  # standard errors that part a coincidence from a finding
SAMPLE, STEPS = 5_000, 15  # rows and steps of the search before it goes on with all rows
SAME = 0.98  # correlation of two columns that are one finding
POINTS, PAIRED = 8_192, 0.9  # most distinct messages that are paired, and the share of them that must come in pairs
LINES, FEW = 3, 64  # random lines that tell messages apart; messages on which a difference is tried first
EQUAL = 1e-5  # of the spread: messages that differ by less are equal, seen in float32


class BinaryUnmask(Attack):
    """Take out planted bits, then list the `keep` most nearly two-valued columns of the rest, best first.

    Masquerade puts a random bit where one direction of the columns was. That bit gives itself away: it
    is exactly in the span, fair, and correlates with nothing, neither with the labels nor with the
    attacker's own columns. Projected out, the messages of all rows are as if it had not been there. What is
    left has lost one direction of many, and training keeps the directions of 0/1 columns, whose
    variance is largest, so a real column is nearly in the span: cut a direction in two, fit the halves,
    and repeat, from `starts` beginnings. The share of variance left open ranks the findings. Where columns
    are levels of a design, no direction need be near to a bit; but then messages come in pairs at one and
    the same distance, for every record has its twin with the other bit, whatever the rank.

    Any number of fabricated bits is taken out. Without any, this is a search for the columns themselves,
    and it withstands noise and a hidden layer: where messages fill more directions than there are columns,
    the strongest are searched, as many as columns and twice as many. The planted bits are returned last.

    Sees: the victim's embeddings of all rows, as predicted after training; its own columns and labels.
    Needs: a bottom that is linear, or nearly so; the number of the victim's columns.
    Cost: about 2 s on bank, credit, mushroom and nursery (results/binary).
    Specification: binary-reconstruction, section 4, (i) and (ii); the alternation in place of Algorithm 2,
    the test for planted bits and the pairs are ours.
    Paper: Ye et al., Feature Reconstruction Attacks and Countermeasures of DNN training in Vertical
    Federated Learning (arXiv:2210.06771), whose Masquerade it undoes.
    """

    target: ClassVar[Target] = Target.FEATURES
    by: ClassVar[Role] = Role.LABEL_PARTY

    def __init__(self, *, keep: int = 10, starts: int = 300) -> None:
        at_least("keep", keep, 1)
        at_least("starts", starts, 1)
        self.keep = keep
        self.starts = starts

    @property
    def asks(self) -> Asks:
        """The victim's embeddings of the training rows under the final weights."""
        return Asks(frozen_train=True)

    def run(self, view: View, rng: Generator) -> Guess:
        """Find what is exact, take out what is planted, search the rest, rank."""
        count = columns(view, "each")
        rows, matrix, own = messages(view, "each")
        draws = np.random.default_rng(int(torch.randint(2**62, (1,), generator=rng)))
        try:
            whole = span_of(with_own(matrix, own, count), centred=True).basis
            span = Span(whole[:, :count], np.zeros(0), centred=True)
            exact = binary_vectors(span) if span.rank <= ENUMERATED else np.zeros((len(rows), 0), np.bool_)
        except DataError as error:
            raise Inapplicable(str(error)) from error
        fake = planted(exact, _held(view, rows.numpy()))
        claims, scores = pairs(span.basis * len(rows) ** 0.5, draws)
        for most in (count,) if whole.shape[1] <= count else (count, WIDER * count):
            points = whitened(whole[:, :most], exact[:, fake])
            near = two_valued(points, self.starts, draws)
            claims, scores = np.column_stack([claims, near]), np.concatenate([scores, left_open(points, near)])
        claims = np.column_stack([exact[:, ~fake], claims])
        best = distinct(claims, np.concatenate([np.zeros((~fake).sum()), scores]), exact[:, fake], self.keep)
        bits = np.column_stack([claims[:, best], exact[:, fake]])
        return Guess(rows, torch.from_numpy(not_own(bits, own)), Form.COLUMNS)


def planted(exact: Bits, held: Floats) -> Bits:
    """Which columns look like fair coins that nothing else knows of."""
    signs = 2.0 * exact - 1
    limit = CLEAR * len(exact) ** 0.5
    known = np.abs(signs.T @ held).max(axis=1, initial=0)
    return np.asarray((np.abs(signs.sum(axis=0)) < limit) & (known < limit), dtype=np.bool_)


def whitened(basis: Floats, fake: Bits) -> Floats:
    """Rows of unit covariance that span what is left of a centred span without the planted bits."""
    known, _ = np.linalg.qr(fake - fake.mean(axis=0))
    rest = basis - known @ (known.T @ basis)
    left, values, _ = np.linalg.svd(rest, full_matrices=False)
    return np.asarray(left[:, values > 0.5] * len(left) ** 0.5)  # fair coins take whole directions: 1 or nearly 0


def two_valued(points: Floats, starts: int, rng: np.random.Generator) -> Bits:
    """Columns to which alternating between halves and their best fit leads."""
    if not points.shape[1]:
        return np.zeros((len(points), 0), np.bool_)
    sample = points[np.sort(rng.permutation(len(points))[:SAMPLE])].astype(np.float32)
    begin = rng.standard_normal((points.shape[1], starts)).astype(np.float32)
    apart = sample[rng.integers(len(sample), size=starts)] - sample[rng.integers(len(sample), size=starts)]
    directions: NDArray[Any] = np.column_stack([begin, apart.T])
    for _ in range(STEPS):
        directions, explained = refitted(sample, directions)
    directions = _apart(_unit(directions[:, np.argsort(-explained, kind="stable")])).astype(np.float64)
    for _ in range(STEPS):
        directions, _ = refitted(points, directions)
    bits = _halves(points, directions)
    return bits[:, bits.any(axis=0) & ~bits.all(axis=0)]


def refitted(points: NDArray[Real], directions: NDArray[Real]) -> tuple[NDArray[Real], Floats]:
    """Cut each direction in two halves and fit them: the new directions, and the share of variance explained."""
    bits = _halves(points, directions).astype(points.dtype)
    fitted = points.T @ bits / points.dtype.type(len(points))
    spread = bits.mean(axis=0, dtype=np.float64) * (1 - bits.mean(axis=0, dtype=np.float64))
    return fitted, (fitted.astype(np.float64) ** 2).sum(axis=0) / np.where(spread > 0, spread, np.inf)


def _halves(points: NDArray[Real], directions: NDArray[Real]) -> Bits:
    """Of rows of unit covariance, a column of two values has them half its skewness above and below the same point."""
    values = points @ _unit(directions)
    return np.asarray(values > np.einsum("ij,ij,ij->j", values, values, values) / (2 * len(values)), dtype=np.bool_)


def _unit(directions: NDArray[Real]) -> NDArray[Real]:
    """Columns of length one; zeros stay."""
    return np.asarray(directions / np.maximum(np.linalg.norm(directions, axis=0), np.finfo(directions.dtype).tiny))


def left_open(points: Floats, bits: Bits) -> Floats:
    """The share of each column's variance that the span does not explain."""
    share = bits.mean(axis=0)
    explained = ((points.T @ bits / len(points)) ** 2).sum(axis=0) / (share * (1 - share))
    return np.asarray(np.maximum(1 - explained, 0))


def pairs(points: Floats, rng: np.random.Generator) -> tuple[Bits, Floats]:
    """Columns that part the distinct messages into pairs at one distance, and the share that is in no pair.

    A difference is a candidate if some message has it to another, and a finding if most messages have
    it to exactly one other, above or below, and none both ways: then it is not a step of more levels.
    """
    cells, which = _distinct_points(points, rng)
    splits, missing = [np.zeros((len(points), 0), np.bool_)], []
    if not 2 <= len(cells) <= POINTS:
        return splits[0], np.zeros(0)
    tree = scipy.spatial.cKDTree(cells)
    for shift in _shared_shifts(cells, rng):
        distance, above = map(np.asarray, tree.query(cells + shift, distance_upper_bound=10 * EQUAL))
        lower: Bits = np.isfinite(distance)
        upper = np.zeros(len(cells), np.bool_)
        upper[above[lower]] = True
        if (lower | upper).mean() >= PAIRED and not (lower & upper).any():
            splits.append(upper[which, None])
            missing.append(1 - float((lower | upper).mean()))
    return np.column_stack(splits), np.array(missing)


def distinct(claims: Bits, scores: Floats, known: Bits, keep: int) -> list[int]:
    """The best claims that are not copies of each other or of what is known."""
    signs = np.column_stack([_standard(claims), _standard(known)])
    chosen: list[int] = []
    given = list(range(claims.shape[1], signs.shape[1]))
    for place in np.argsort(scores.round(9), kind="stable"):
        if len(chosen) == keep:
            break
        if np.abs(signs[:, chosen + given].T @ signs[:, place]).max(initial=0) < SAME:
            chosen.append(int(place))
    return chosen


def _held(view: View, rows: NDArray[np.int64]) -> Floats:
    """What the attacker holds about these rows, labels as one column per class, each standardised."""
    own = view.own[view.attacker]
    parts: list[NDArray[Any]] = [np.zeros((len(rows), 0))]
    if own.features is not None:
        parts.append(own.features.index_select(0, torch.from_numpy(rows)).to_dense().flatten(1).double().numpy())
    if own.labels is not None:
        labels = own.labels[torch.from_numpy(rows)].numpy()
        classes = view.manifest.classes
        parts.append(labels[:, None] == np.arange(classes) if classes else labels[:, None])
    held: Floats = _standard(np.column_stack(parts)) * len(rows) ** 0.5
    return held


def _standard(table: NDArray[Any]) -> Floats:
    """Columns of mean zero and length one; a constant is all zeros."""
    centred: Floats = table - table.mean(axis=0, dtype=np.float64)
    length = np.linalg.norm(centred, axis=0)
    return np.asarray(centred / np.where(length > 0, length, 1), dtype=np.float64)


def _apart(directions: NDArray[Real]) -> NDArray[Real]:
    """Those that are not, up to sign, one that stands before them."""
    close = np.triu(np.abs(directions.T @ directions) > 1 - 1e-3, 1)
    kept = np.ones(directions.shape[1], np.bool_)
    for place in range(directions.shape[1]):
        if kept[place]:
            kept &= ~close[place]
    return directions[:, kept]


def _distinct_points(points: Floats, rng: np.random.Generator) -> tuple[Floats, NDArray[np.intp]]:
    """The distinct rows, and which of them each row is: told apart along random lines, one after the other."""
    which = np.zeros(len(points), np.intp)
    first = np.ones(1, np.bool_)
    for line in (points @ _unit(rng.standard_normal((points.shape[1], LINES)))).T:
        order = np.lexsort((line, which))
        first = np.concatenate([[True], (np.diff(line[order]) > EQUAL) | (np.diff(which[order]) > 0)])
        which[order] = first.cumsum() - 1
    return points[order[first]], which


def _shared_shifts(cells: Floats, rng: np.random.Generator) -> Floats:
    """The differences from a message to others that most messages seem to have, seen along a random line."""
    line = cells @ _unit(rng.standard_normal((cells.shape[1], 1)))[:, 0]
    ordered = np.sort(line)

    def shared(step: float, ends: Floats) -> bool:
        targets = np.stack([ends + step, ends - step])
        near = ordered.searchsorted(targets + 10 * EQUAL) > ordered.searchsorted(targets - 10 * EQUAL)
        return bool(near.any(axis=0).mean() >= PAIRED)

    anchor, few = int(rng.integers(len(cells))), line[rng.permutation(len(cells))[:FEW]]
    steps = line - line[anchor]
    kept = [i for i, step in enumerate(steps) if i != anchor and shared(step, few) and shared(step, line)]
    return np.asarray(cells[kept] - cells[anchor])
