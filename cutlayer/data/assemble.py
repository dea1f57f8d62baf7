"""The last step of every loader: thin the rows out, deal the columns to parties, name the label party."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cutlayer._validate import at_least, whole
from cutlayer.data.about import About
from cutlayer.data.prepare import Array, Labels, plain_columns
from cutlayer.data.split import by_image_columns, evenly, party_names, split_rows
from cutlayer.data.task import Column, Features, Goal, Task
from cutlayer.errors import DataError
from cutlayer.json_types import Json
from cutlayer.rng import generator


@dataclass(frozen=True, slots=True)
class Call:
    """The arguments of a loader: those that every loader has, and all of them as they go into Task.source."""

    parties: int
    label_party: str | None
    seed: int
    limit: int | None
    arguments: Mapping[str, Json]

    @classmethod
    def of(cls, arguments: Mapping[str, Json]) -> "Call":
        """Take the local names of a loader that has just begun."""
        given: dict[str, Any] = dict(arguments)
        return cls(given["parties"], given["label_party"], given["seed"], given["limit"], given)


@dataclass(frozen=True, slots=True)
class KeptRows:
    """Which rows of a file are used, and which of these are for training and test."""

    rows: Tensor
    train: Tensor
    test: Tensor


def keep_rows(labels: Tensor, train: Tensor, test: Tensor, call: Call) -> KeptRows:
    """Apply `limit`: draw so many training rows, and test rows in proportion, class by class."""
    whole("seed", call.seed)
    limit = call.limit
    if limit is not None:
        at_least("limit", limit, 1)
        share = min(1.0, limit / len(train))
        train = _thin(labels, train, share, call.seed, "train")
        test = _thin(labels, test, share, call.seed, "test")
    rows = torch.cat([train, test]).sort().values
    return KeptRows(rows, torch.searchsorted(rows, train), torch.searchsorted(rows, test))


def assemble(
    about: About,
    call: Call,
    features: Mapping[str, Features],
    labels: Tensor,
    classes: Sequence[str],
    kept: KeptRows,
    notes: Sequence[str] = (),
) -> Task:
    """Make the task; `features` and `labels` hold the kept rows only."""
    if not classes:
        goal = Goal.REGRESSION
    else:
        goal = Goal.BINARY if len(classes) == 2 else Goal.MULTICLASS
    return Task(
        name=about.name,
        features=features,
        labels=labels,
        label_party=party_names(1)[0] if call.label_party is None else call.label_party,
        goal=goal,
        classes=tuple(classes),
        train=kept.train,
        test=kept.test,
        notes=tuple(notes),
        source={"dataset": about.name, **call.arguments},
    )


def assemble_table(
    about: About,
    call: Call,
    values: Array,
    columns: Sequence[Column] | Sequence[str],
    labels: Labels,
    classes: Sequence[str],
    shares: Sequence[Sequence[int]],
    parts: tuple[Tensor, Tensor],
    notes: Sequence[str] = (),
) -> Task:
    """Make the task of a numeric table; column names alone stand for plain numeric or 0/1 columns."""
    if not np.isfinite(values).all():
        raise DataError(f"Expected a number in every cell of {about.name}, got empty or infinite ones.")
    targets = torch.from_numpy(labels.astype(np.int64 if classes else np.float32))
    kept = keep_rows(targets, *parts, call)
    named = [column if isinstance(column, Column) else None for column in columns]
    full = tuple(column for column in named if column) or plain_columns([str(c) for c in columns], values)
    whole = torch.from_numpy(values[kept.rows.numpy()].astype(np.float32))
    features = {
        party: Features(whole[:, list(share)].contiguous(), tuple(full[column] for column in share))
        for party, share in zip(party_names(len(shares)), shares, strict=True)
    }
    return assemble(about, call, features, targets[kept.rows], classes, kept, notes)


def assemble_images(
    about: About,
    call: Call,
    images: Tensor,
    labels: Tensor,
    classes: Sequence[str],
    parts: tuple[Tensor, Tensor],
    scale: Callable[[Tensor], Tensor] = lambda images: images / 255,
    notes: Sequence[str] = (),
) -> Task:
    """Make the task of images (n, c, h, w), scaled to [0, 1] by default, cut into upright strips."""
    kept = keep_rows(labels, *parts, call)
    strips = by_image_columns(scale(images[kept.rows].float()), call.parties)
    features = {party: Features(strip) for party, strip in strips.items()}
    return assemble(about, call, features, labels[kept.rows], classes, kept, notes)


def random_parts(about: About, call: Call, labels: Labels, test: float, stratify: bool = True) -> tuple[Tensor, Tensor]:
    """Split rows at random into training and test, from the call's seed."""
    whole("seed", call.seed)
    rng = generator(call.seed, "data", about.name, "split")
    return split_rows(torch.from_numpy(labels), test, rng, stratify)


def given_parts(train: int, test: int) -> tuple[Tensor, Tensor]:
    """Rows of a dataset that comes split: training first, then test."""
    return torch.arange(train), torch.arange(train, train + test)


def first_to_others(first: int, width: int, parties: int) -> list[list[int]]:
    """Give party 1 all but the first columns; the other parties share these evenly."""
    if parties == 1:
        return [list(range(width))]
    at_least("parties", parties, 1)
    return [list(range(first, width)), *evenly(first, parties - 1)]


def by_rounded_share(width: int, parties: int) -> list[list[int]]:
    """Cut a table's columns as HashVFL does, by the rule that also cuts images into strips."""
    strips = by_image_columns(torch.arange(width).view(1, 1, 1, width), parties)
    return [strip.flatten().tolist() for strip in strips.values()]


def _thin(labels: Tensor, rows: Tensor, share: float, seed: int, part: str) -> Tensor:
    if share >= 1 or len(rows) < 2:
        return rows
    chosen = labels[rows]
    rng = generator(seed, "data", "limit", part)
    return rows[split_rows(chosen, 1 - share, rng, stratify=not chosen.is_floating_point())[0]]
