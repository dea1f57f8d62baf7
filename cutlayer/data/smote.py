"""SMOTE (Chawla et al., 2002), written here because imbalanced-learn is not a dependency."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from cutlayer._validate import one_of
from cutlayer.data.prepare import Array, Whole, standardise
from cutlayer.data.split import split_rows
from cutlayer.rng import generator, numpy_generator


def smote(values: Array, labels: Whole, rng: np.random.Generator, neighbours: int = 5) -> tuple[Array, Whole]:
    """Append made-up rows until every class is as large as the largest.

    Each lies at a random place on the line from a random row of its class to one of that row's
    nearest rows of the same class.
    """
    from sklearn.neighbors import NearestNeighbors

    counts = np.bincount(labels)
    blocks, block_labels = [values], [labels]
    for code in np.flatnonzero((counts > 0) & (counts < counts.max())):
        own, need = values[labels == code], int(counts.max() - counts[code])
        around = min(neighbours, len(own) - 1)
        start = rng.integers(len(own), size=need)
        if around > 0:
            near = NearestNeighbors(n_neighbors=around + 1).fit(own).kneighbors(own, return_distance=False)
            end = near[start, rng.integers(1, around + 1, size=need)]  # the nearest is the row itself
        else:
            end = start
        blocks.append(own[start] + rng.random((need, 1)) * (own[end] - own[start]))
        block_labels.append(np.full(need, code))
    return np.concatenate(blocks), np.concatenate(block_labels)


@dataclass(frozen=True, slots=True)
class Resampled:
    """A table after scaling and SMOTE, and its rows for training and test."""

    values: Array
    labels: Whole
    parts: tuple[Tensor, Tensor]
    notes: tuple[str, ...]


def resample(values: Array, labels: Whole, *, mode: str, scaled: bool, test: float, seed: int) -> Resampled:
    """Scale if asked, balance by SMOTE, and split by class, in the order that `mode` says.

    HashVFL balances before it splits, so made-up test rows lie between training rows and scores
    come out too high; "before" keeps that, "train" makes rows from training rows only.
    """
    one_of("smote", mode, ("before", "train", "none"))
    rng, rows_rng = numpy_generator(seed, "data", "smote"), generator(seed, "data", "smote", "split")
    if mode == "before":
        values = standardise(values) if scaled else values
        values, labels = smote(values, labels, rng)
        parts = split_rows(torch.from_numpy(labels), test, rows_rng, stratify=True)
        order = "SMOTE on all rows before the split: test rows are partly made up from training rows"
        return Resampled(values, labels, parts, (order, *_scaling(scaled, "all rows")))
    train, held = split_rows(torch.from_numpy(labels), test, rows_rng, stratify=True)
    values = standardise(values, train.numpy()) if scaled else values
    if mode == "none":
        return Resampled(values, labels, (train, held), _scaling(scaled, "training rows"))
    more, more_labels = smote(values[train.numpy()], labels[train.numpy()], rng)
    synthetic = torch.arange(len(labels), len(labels) + len(more) - len(train))
    values = np.concatenate([values, more[len(train) :]])
    labels = np.concatenate([labels, more_labels[len(train) :]])
    order = "SMOTE on training rows only: the test part keeps its class shares"
    return Resampled(values, labels, (torch.cat([train, synthetic]), held), (order, *_scaling(scaled, "training rows")))


def _scaling(scaled: bool, rows: str) -> tuple[str, ...]:
    if not scaled:
        return ("columns are not standardised, as in the paper",)
    return (f"columns standardised on {rows}, before any SMOTE",)
