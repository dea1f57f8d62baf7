"""Vertical partition: which party holds which columns, and which rows are for training and test.

Every way to cut columns returns one list of column numbers per party, in party order; together
the lists hold every column exactly once, and no party is left without a column.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from cutlayer._validate import at_least, positive, probability
from cutlayer.blocks.sparse import SparseRows
from cutlayer.data.task import Features, Task
from cutlayer.errors import ConfigError

_Array = npt.NDArray[np.float64]
_Whole = npt.NDArray[np.int64]
_IMPORTANCE_ROWS = 5000  # enough to rank columns, so a large table costs no more than a small one
_CORRELATION_STARTS = 4
_CORRELATION_SWAPS = 1000


def party_names(count: int) -> tuple[str, ...]:
    """Name parties that the user did not name: party1, party2 and so on."""
    at_least("parties", count, 1)
    return tuple(f"party{number}" for number in range(1, count + 1))


def evenly(width: int, parties: int) -> list[list[int]]:
    """Cut the columns into neighbouring blocks of equal width; the first parties take what is left over."""
    _enough_columns(width, parties)
    return [block.tolist() for block in np.array_split(np.arange(width), parties)]


def by_ratio(width: int, ratios: Sequence[float]) -> list[list[int]]:
    """Cut the columns into neighbouring blocks whose widths follow the ratios, at least one column each."""
    if not ratios or any(not 0 < ratio <= 1 for ratio in ratios) or abs(sum(ratios) - 1) > 1e-6:
        raise ConfigError(f"Expected ratios={list(ratios)} to be above 0 and to sum to 1.")
    _enough_columns(width, len(ratios))
    exact = np.asarray(ratios) * width
    sizes = np.maximum(np.floor(exact + 1e-9).astype(int), 1)
    while sizes.sum() < width:
        sizes[np.argmax(exact - sizes)] += 1
    while sizes.sum() > width:
        sizes[np.argmax(np.where(sizes > 1, sizes - exact, -np.inf))] -= 1
    return [block.tolist() for block in np.split(np.arange(width), np.cumsum(sizes)[:-1])]


def at_random(width: int, parties: int, rng: np.random.Generator) -> list[list[int]]:
    """Deal the columns out at random, in equal numbers; each party keeps the table's order."""
    _enough_columns(width, parties)
    return [sorted(block.tolist()) for block in np.array_split(rng.permutation(width), parties)]


def by_importance(
    features: _Array,
    labels: _Array | _Whole,
    alpha: float | Sequence[float],
    rng: np.random.Generator,
    parties: int | None = None,
) -> list[list[int]]:
    """Deal the columns out so that the parties' shares of the importance follow a Dirichlet draw.

    A small alpha leaves one party with nearly all that predicts the label, a large one balances
    them. Give one alpha per party, or a single one together with `parties`. After Wu, Hou and He,
    VertiBench, ICLR 2024 (arXiv:2307.02040). They send each column to party k with probability
    share k, so the totals follow the draw only on average over many columns; here the most
    important column goes first, to the party that is furthest below its share, so that they also
    follow it when columns are few. Importance is a forest's, fitted to at most 5,000 rows.
    """
    if isinstance(alpha, int | float):
        if parties is None:
            raise ConfigError(f"Expected the number of parties beside a single alpha={alpha}: pass parties=.")
        alpha = [float(alpha)] * parties
    for value in alpha:
        positive("alpha", value)
    if parties is not None and len(alpha) != parties:
        raise ConfigError(f"Expected one alpha per party, {parties} of them, got {len(alpha)}.")
    _enough_columns(features.shape[1], len(alpha))
    shares = rng.dirichlet(np.asarray(alpha, dtype=float))
    return follow_shares(importance(features, labels, rng), shares)


def follow_shares(weights: _Array, shares: _Array) -> list[list[int]]:
    """Deal out columns, heaviest first, each to the party furthest below its share of the weight."""
    _enough_columns(len(weights), len(shares))
    blocks: list[list[int]] = [[] for _ in shares]
    missing = np.asarray(shares, dtype=float) * weights.sum()
    order = np.argsort(-weights, kind="stable")
    for position, column in enumerate(order):
        empty = [party for party, block in enumerate(blocks) if not block]
        # The last columns, the lightest ones, are kept for parties that would stay without any.
        among = empty if len(empty) >= len(order) - position else range(len(blocks))
        party = max(among, key=lambda index: missing[index])
        blocks[party].append(int(column))
        missing[party] -= weights[column]
    return [sorted(block) for block in blocks]


def importance(features: _Array, labels: _Array | _Whole, rng: np.random.Generator) -> _Array:
    """How much each column tells a small forest about the label; non-negative, sums to one."""
    from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor

    if len(features) != len(labels):
        raise ConfigError(f"Expected one label per row, got {len(labels)} labels and {len(features)} rows.")
    kind = ExtraTreesRegressor if labels.dtype.kind == "f" else ExtraTreesClassifier
    forest = kind(n_estimators=50, min_samples_leaf=5, random_state=int(rng.integers(2**31)))
    rows = rng.permutation(len(labels))[:_IMPORTANCE_ROWS]
    weights = np.asarray(forest.fit(features[rows], labels[rows]).feature_importances_, dtype=float)
    total = weights.sum()
    return weights / total if total > 0 else np.full(len(weights), 1 / len(weights))


def by_correlation(features: _Array, parties: int, beta: float, rng: np.random.Generator) -> list[list[int]]:
    """Deal the columns out, in equal numbers, by how strongly they correlate across parties.

    beta=0 keeps correlated columns together, beta=1 pulls them apart, and values between aim at
    the mean between the least and greatest inter-party correlation found. After Wu, Hou and He,
    VertiBench, ICLR 2024 (arXiv:2307.02040). They measure the spread of the singular values of
    the correlation between two parties' columns and search with a genetic algorithm; here it is
    the mean absolute Spearman correlation of two columns of different parties, and the search
    takes the best swap of two columns until none helps, from a few random starts.
    """
    probability("beta", beta)
    width = features.shape[1]
    _enough_columns(width, parties)
    if parties == 1:
        return [list(range(width))]
    related = absolute_spearman(features)
    even = np.repeat(np.arange(parties), [len(block) for block in evenly(width, parties)])
    starts = [rng.permutation(even) for _ in range(_CORRELATION_STARTS)]
    least = _nearest(related, starts, 0.0)
    greatest = _nearest(related, starts, 1.0)
    low, high = between_parties(related, least), between_parties(related, greatest)
    owner = _nearest(related, [least, greatest, *starts], (1 - beta) * low + beta * high)
    return [np.flatnonzero(owner == party).tolist() for party in range(parties)]


def absolute_spearman(features: _Array) -> _Array:
    """Absolute rank correlation of every two columns; zero for a column that never varies."""
    from scipy.stats import rankdata

    ranks = rankdata(np.asarray(features, dtype=float), axis=0)
    ranks -= ranks.mean(axis=0)
    length = np.sqrt((ranks**2).sum(axis=0))
    ranks /= np.where(length > 0, length, 1.0)
    related: _Array = np.abs(ranks.T @ ranks)
    np.fill_diagonal(related, 0.0)
    return related


def between_parties(related: _Array, owner: _Whole) -> float:
    """Mean correlation over all pairs of columns that two different parties hold."""
    apart = owner[:, None] != owner[None, :]
    return float(related[apart].mean())


def _nearest(related: _Array, starts: Sequence[_Whole], target: float) -> _Whole:
    """Swap columns between parties until the mean correlation across parties is nearest the target."""
    owners = [_swap_towards(related, start, target) for start in starts]
    return min(owners, key=lambda owner: abs(between_parties(related, owner) - target))


def _swap_towards(related: _Array, start: _Whole, target: float) -> _Whole:
    owner = start.copy()
    apart = owner[:, None] != owner[None, :]
    pairs = apart.sum()  # swaps keep the parties' sizes, so this never changes
    for _ in range(_CORRELATION_SWAPS):
        value = related[apart].sum() / pairs
        to_party = related @ np.eye(int(owner.max()) + 1)[owner]  # a column's correlation with each party
        there = to_party[:, owner]  # [i, j]: column i with the party that holds j
        own = there.diagonal()
        # A swap moves i's and j's correlation with the two parties across the border, or back.
        change = 2 * (own[:, None] + own[None, :] - there - there.T + 2 * related) / pairs
        distance = np.where(apart, np.abs(value + change - target), np.inf)
        i, j = np.unravel_index(np.argmin(distance), distance.shape)
        if distance[i, j] >= abs(value - target) - 1e-12:
            break
        owner[[i, j]] = owner[[j, i]]
        apart = owner[:, None] != owner[None, :]
    return owner


def by_image_columns(images: Tensor, parties: int) -> dict[str, Tensor]:
    """Cut images (n, c, h, w) into upright strips; the first party holds the left one.

    Each party takes round(1/N, 2) of the width, rounded, and the last takes the rest, as in
    HashVFL's code (Qiu et al., arXiv:2212.00325), so three parties of 32 columns hold 11, 11 and 10.
    """
    if images.ndim != 4:
        raise ConfigError(f"Expected images of shape (n, c, h, w), got shape {tuple(images.shape)}.")
    width = images.shape[3]
    _enough_columns(width, parties)
    each = max(1, round(width * round(1 / parties, 2)))
    each = min(each, (width - 1) // (parties - 1)) if parties > 1 else width
    names = party_names(parties)
    ends = [each * number for number in range(1, parties)] + [width]
    starts = [0, *ends[:-1]]
    return {name: images[..., start:end].contiguous() for name, start, end in zip(names, starts, ends, strict=True)}


def split_rows(labels: Tensor, test: float, rng: torch.Generator, stratify: bool) -> tuple[Tensor, Tensor]:
    """Draw the test rows; return the row numbers for training and for test, each sorted.

    With `stratify` every class keeps its share in both parts as nearly as whole rows allow, and
    at least one row in training, since a model cannot predict a class that it never met.
    """
    if not 0 <= test < 1:
        raise ConfigError(f"Expected test={test} to be at least 0 and below 1.")
    rows = len(labels)
    count = min(max(1, round(test * rows)), rows - 1) if test > 0 and rows else 0
    order = torch.randperm(rows, generator=rng)
    chosen = torch.zeros(rows, dtype=torch.bool)
    if stratify:
        chosen[_stratified(labels, order, test, count)] = True
    else:
        chosen[order[:count]] = True
    return (~chosen).nonzero().flatten(), chosen.nonzero().flatten()


def _stratified(labels: Tensor, order: Tensor, test: float, count: int) -> Tensor:
    if labels.is_floating_point():
        raise ConfigError("Expected class numbers to stratify by, got real numbers: pass stratify=False.")
    codes = torch.unique(labels.cpu(), return_inverse=True)[1][order]
    sizes = torch.bincount(codes)
    exact = sizes.double() * test
    quota = torch.minimum(exact.floor().long(), sizes - 1)
    while int(quota.sum()) < count and bool((quota < sizes - 1).any()):
        need = count - int(quota.sum())
        lacking = torch.where(quota < sizes - 1, exact - quota, -torch.inf)
        best = lacking.sort(descending=True, stable=True).indices[:need]
        quota[best] = torch.minimum(quota[best] + 1, sizes[best] - 1)
    grouped = codes.sort(stable=True).indices
    place = torch.arange(len(codes)) - (sizes.cumsum(0) - sizes).repeat_interleave(sizes)
    return order[grouped[place < quota.repeat_interleave(sizes)]]


def _enough_columns(width: int, parties: int) -> None:
    at_least("parties", parties, 1)
    if parties > width:
        raise ConfigError(f"Expected no more parties than columns, got {parties} parties and {width} columns.")


def recut(task: Task, shares: Sequence[float]) -> Task:
    """Deal the columns of all parties out again, contiguously, by shares in the parties' order (images by columns)."""
    names = list(task.features)
    if len(shares) != len(names):
        raise ConfigError(f"Expected a share for each of {len(names)} parties, got {len(shares)}.")
    held = [task.features[name] for name in names]
    if any(isinstance(features.values, SparseRows) for features in held):
        raise ConfigError("Expected dense columns to deal out again, got sparse ones.")
    values = torch.cat([features.values for features in held if isinstance(features.values, Tensor)], dim=-1)
    columns = [column for features in held for column in features.columns]
    dealt = {
        name: Features(values[..., part].contiguous(), tuple(columns[i] for i in part) if columns else ())
        for name, part in zip(names, by_ratio(values.shape[-1], shares), strict=True)
    }
    return replace(task, features=dealt, source={})
