"""From a column of a table to inputs: what training learned of it, and how any rows are encoded by it.

Binary columns stay 0 and 1 under every choice, since attacks on binary inputs rely on it and a
model needs no scale for them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from cutlayer.data.tables.columns import LARGEST, Holds, refuse_infinite, with_gaps
from cutlayer.data.task import Column, ColumnKind
from cutlayer.errors import DataError
from cutlayer.json_types import Json

if TYPE_CHECKING:
    import polars as pl

Level = bool | int | float | str
_Array = npt.NDArray[np.float64]
MISSING_LEVEL = "(missing)"
_TYPES: dict[Holds, set[type]] = {Holds.BOOLEAN: {bool}, Holds.NUMBER: {int, float}, Holds.TEXT: {str}}


@dataclass(frozen=True, slots=True)
class FittedColumn:
    """What the training rows say about one column; enough to encode other rows in the same way."""

    name: str
    kind: ColumnKind
    holds: Holds
    levels: tuple[Level, ...] = ()  # text of a category in the order of its codes; low and high of a binary column
    fill: float = 0.0  # for what is missing: the median, or the commoner of 0 and 1
    start: float = 0.0
    span: float = 1.0

    def inputs(self, coding: str) -> list[Column]:
        """Describe the inputs that this column becomes."""
        if self.kind is not ColumnKind.CATEGORICAL:
            return [Column(self.name, self.kind)]
        if coding == "integer":  # one code more than levels: unseen levels share it
            return [Column(self.name, self.kind, levels=len(self.levels) + 1)]
        return [Column(f"{self.name}={level}", ColumnKind.BINARY, source=self.name) for level in self.levels]

    def apply(self, series: "pl.Series", coding: str) -> _Array:
        """Encode a clean column of any rows, (n, width) float32."""
        block: _Array = self.numbers(series)[:, None]
        if self.kind is ColumnKind.NUMERIC:
            block = (block - self.start) / self.span
        elif self.kind is ColumnKind.CATEGORICAL and coding == "onehot":
            block = block == np.arange(len(self.levels))
        return block.astype(np.float32)

    def numbers(self, series: "pl.Series") -> _Array:
        """A clean column as (n,) float64 without gaps, not scaled; categories as codes, an unseen one coded last."""
        values = self.codes(series)
        values[np.isnan(values)] = self.fill
        return values

    def codes(self, series: "pl.Series") -> _Array:
        """The same, with NaN for missing values, except in a category: there they are a level like others."""
        if self.kind is ColumnKind.NUMERIC:
            refuse_infinite(series)
            return with_gaps(series)
        return self._sides(series) if self.kind is ColumnKind.BINARY else self._ranks(series)

    def _sides(self, series: "pl.Series") -> _Array:
        import polars as pl

        low, high = (series == pl.Series([level]) for level in self.levels)  # a series holds larger integers
        others = len(series) - series.null_count() - int(low.sum()) - int(high.sum())
        if others:
            raise DataError(
                f"Expected one of the two values of training in column {self.name!r}, "
                f"got another in {others} rows: correct them."
            )
        return with_gaps(high)

    def _ranks(self, series: "pl.Series") -> _Array:
        import polars as pl

        count = len(self.levels)
        return (
            series.fill_null(MISSING_LEVEL)
            .replace_strict(list(self.levels), list(range(count)), default=count, return_dtype=pl.Float64)
            .to_numpy()
            .copy()
        )

    def to_json(self) -> dict[str, Json]:
        """JSON values; floats come back exactly."""
        return {
            "name": self.name,
            "kind": self.kind.value,
            "holds": self.holds.value,
            "levels": list(self.levels),
            "fill": self.fill,
            "start": self.start,
            "span": self.span,
        }

    @classmethod
    def from_json(cls, saved: Mapping[str, object]) -> "FittedColumn":
        """Check every field; KeyError, TypeError or ValueError for what `to_json` would not write."""
        fields: dict[str, Any] = dict(saved)
        kind, held, levels = ColumnKind(fields.pop("kind")), Holds(fields.pop("holds")), fields.pop("levels")
        fill, start, span = (_finite(fields.pop(name)) for name in ("fill", "start", "span"))
        column = cls(**fields, kind=kind, holds=held, levels=tuple(levels), fill=fill, start=start, span=span)
        if not isinstance(column.name, str) or not isinstance(levels, list) or not column._whole():
            raise ValueError("fields that do not belong together")
        return column

    def _whole(self) -> bool:
        levels: tuple[Any, ...] = self.levels  # of one type, as the first line makes sure
        if self.span <= 0 or not {type(level) for level in levels} <= _TYPES[self.holds]:
            return False
        if self.holds is Holds.NUMBER and not all(abs(level) <= LARGEST for level in levels):
            return False
        if self.kind is ColumnKind.NUMERIC:
            return self.holds is Holds.NUMBER and not levels
        if self.kind is ColumnKind.BINARY:
            return len(levels) == 2 and levels[0] < levels[1] and self.fill in (0, 1)
        return self.holds is Holds.TEXT and len(set(levels)) == len(levels) > 1


def _finite(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        raise ValueError("no finite number")
    return float(value)
