"""Task: a table cut into columns per party, with labels, and rows for training, validation and test."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

import torch
from torch import Tensor

from cutlayer.blocks.sparse import SparseRows
from cutlayer.errors import DataError
from cutlayer.json_types import Json

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,31}")  # also the name of its files


class Goal(Enum):
    """What is predicted."""

    BINARY = "binary"
    MULTICLASS = "multiclass"
    REGRESSION = "regression"


class ColumnKind(Enum):
    """What a column holds."""

    NUMERIC = "numeric"
    BINARY = "binary"
    CATEGORICAL = "categorical"


@dataclass(frozen=True, slots=True)
class Column:
    """One input column as a bottom sees it. `levels` counts the values of an integer-coded category."""

    name: str
    kind: ColumnKind = ColumnKind.NUMERIC
    levels: int = 0
    source: str = ""  # the column of the user's table that it came from, if one-hot coding made it


@dataclass(frozen=True, slots=True)
class Features:
    """One party's inputs, a row per sample: (n, d), images (n, c, h, w), token ids (n, length), or sparse."""

    values: Tensor | SparseRows
    columns: tuple[Column, ...] = ()  # named columns of a table; empty for images and text


@dataclass(frozen=True)
class Task:
    """Who holds which columns about the same rows, who holds the labels, and what is to be learned."""

    name: str
    features: Mapping[str, Features]  # every party that holds columns, the label party too if it does
    labels: Tensor  # (n,) int64 class numbers, or float32 for regression
    label_party: str
    goal: Goal
    classes: tuple[str, ...]  # names of the classes; empty for regression
    train: Tensor  # row numbers, int64
    test: Tensor
    valid: Tensor = field(default_factory=lambda: torch.empty(0, dtype=torch.int64))
    notes: tuple[str, ...] = ()  # what the loader did that a reader must know
    source: Mapping[str, Json] = field(default_factory=dict)  # the call that makes this task again

    def __post_init__(self) -> None:
        for party in {*self.features, self.label_party}:
            if not NAME.fullmatch(party):
                raise DataError(f"Expected a party's name of up to 32 letters, digits, - or _, got {party!r}.")
        rows = len(self.labels)
        for party, features in self.features.items():
            if len(features.values) != rows:
                raise DataError(f"Expected {rows} rows for party {party!r}, got {len(features.values)}.")
        if not self.feature_parties:
            raise DataError(
                f"Expected at least one party besides the label party {self.label_party!r} to hold columns."
            )

    @property
    def feature_parties(self) -> tuple[str, ...]:
        """The parties that send embeddings: all that hold columns, except the label party."""
        return tuple(name for name in self.features if name != self.label_party)

    @property
    def outputs(self) -> int:
        """Width of the top model's output: one per class, or one number for regression."""
        return len(self.classes) or 1

    def hold_out(self, share: float, rng: torch.Generator) -> "Task":
        """Move a random share of the training rows to the validation part."""
        order = torch.randperm(len(self.train), generator=rng)
        count = max(1, round(share * len(self.train)))
        return replace(self, valid=self.train[order[:count]], train=self.train[order[count:].sort().values])
