"""FittedTable: the encoding of a table, learned from training rows once, saved, and applied to any rows.

A party that serves predictions must encode fresh rows exactly as it encoded those it trained on.
What is saved holds medians and levels of the party's own rows, so it stays with that party.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch

from cutlayer._validate import one_of
from cutlayer.data.tables.columns import Holds, as_trained, refuse_missing
from cutlayer.data.tables.encode import FittedColumn
from cutlayer.data.tables.fit import fit_column
from cutlayer.data.task import Column, Features
from cutlayer.errors import ConfigError, DataError
from cutlayer.json_types import Json

if TYPE_CHECKING:
    import polars as pl

_Array = npt.NDArray[np.float64]
_VERSION = 1
_FIELDS = {"version", "coding", "missing", "columns"}


@dataclass(frozen=True, slots=True)
class FittedTable:
    """Columns that vary in the training rows, in the order of the inputs that they become."""

    columns: tuple[FittedColumn, ...]
    coding: str  # of categories: "onehot" or "integer"
    missing: str  # "impute", or "refuse", which holds for later rows too

    def __post_init__(self) -> None:
        one_of("coding", self.coding, ("onehot", "integer"))
        one_of("missing", self.missing, ("impute", "refuse"))

    @classmethod
    def fit(
        cls,
        table: Sequence["pl.Series"],
        train: npt.NDArray[np.int64],
        *,
        coding: str = "onehot",
        scaling: str = "standard",
        missing: str = "impute",
        notes: list[str],
    ) -> "FittedTable":
        """Learn from clean columns of all rows, and the numbers of the training rows among them.

        Columns that are constant in the training rows are left out, so that none may be left. The
        notes are appended to: what was filled, left out, unseen in training, or held twice.
        """
        one_of("scaling", scaling, ("standard", "minmax", "none"))
        empty = cls((), coding, missing)
        if not len(train):
            raise DataError("Expected training rows to fit the table on, got none.")
        if missing == "refuse":
            refuse_missing(table)
        columns: list[FittedColumn] = []
        same: list[str] = []
        first: dict[object, str] = {}
        for series in table:
            fitted = fit_column(series, train, scaling, notes)
            if fitted is None:
                continue
            column, values = fitted
            columns.append(column)
            twin = first.setdefault((column.kind, tuple(map(str, column.levels)), values.tobytes()), column.name)
            if twin != column.name:
                same.append(f"Columns {twin!r} and {column.name!r} hold identical values; both were kept.")
        notes += same
        return replace(empty, columns=tuple(columns))

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that a table of fresh rows must have, in any order."""
        return tuple(column.name for column in self.columns)

    @property
    def text(self) -> tuple[str, ...]:
        """The columns that must be read as text, for `read_table(..., text=)`: a few rows could look like numbers."""
        return tuple(column.name for column in self.columns if column.holds is Holds.TEXT)

    @property
    def inputs(self) -> tuple[Column, ...]:
        """The inputs that the columns become."""
        return tuple(described for column in self.columns for described in column.inputs(self.coding))

    def only(self, names: Sequence[str]) -> "FittedTable":
        """The encoding of some columns, in the order of their names: one party's part."""
        by_name = {column.name: column for column in self.columns}
        return replace(self, columns=tuple(by_name[name] for name in names))

    def features(self, frame: "pl.DataFrame") -> Features:
        """Encode rows, seen or fresh, (n, width) float32; refuse what training would have read otherwise."""
        pairs = zip(self.columns, self._held(frame), strict=True)
        blocks = [column.apply(series, self.coding) for column, series in pairs]
        no_columns = np.empty((frame.height, 0), dtype=np.float32)  # so that a table of constants works too
        return Features(torch.from_numpy(np.concatenate([no_columns, *blocks], axis=1)), self.inputs)

    def numbers(self, frame: "pl.DataFrame") -> _Array:
        """One number per cell, (n, columns) float64: filled, categories as codes, not scaled."""
        pairs = zip(self.columns, self._held(frame), strict=True)
        return np.stack([column.numbers(series) for column, series in pairs], axis=1)

    def _held(self, frame: "pl.DataFrame") -> list["pl.Series"]:
        """The columns as they were in training."""
        present = set(frame.columns)
        absent = [name for name in self.names if name not in present]
        if absent:
            listed = ", ".join(map(repr, absent))
            raise DataError(f"Expected the columns of training, found none named {listed}: add what is absent.")
        held = [as_trained(frame[column.name], column.holds) for column in self.columns]
        if self.missing == "refuse":
            refuse_missing(held, "fill them, as in training")
        return held

    def to_json(self) -> dict[str, Json]:
        """JSON values from which `from_json` makes the same encoding, bit for bit."""
        return {
            "version": _VERSION,
            "coding": self.coding,
            "missing": self.missing,
            "columns": [column.to_json() for column in self.columns],
        }

    @classmethod
    def from_json(cls, saved: object) -> "FittedTable":
        """Refuse anything that `to_json` would not write: a wrong scale would spoil predictions without a word."""
        try:
            if not isinstance(saved, dict) or set(saved) != _FIELDS or saved["version"] != _VERSION:
                raise ValueError("another version, or fields too few or too many")
            columns = tuple(FittedColumn.from_json(column) for column in saved["columns"])
            if len({column.name for column in columns}) != len(columns):
                raise ValueError("a column twice")
            return cls(columns, saved["coding"], saved["missing"])
        except (KeyError, TypeError, ValueError, OverflowError, ConfigError) as error:
            raise DataError(
                "Expected the encoding of a table as cutlayer saved it, got another or a damaged one: "
                "restore the file, or train again."
            ) from error
