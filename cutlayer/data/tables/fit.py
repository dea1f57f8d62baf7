"""Learn from the training rows how a column is filled, coded and scaled.

What a column holds (its kind) is told from the whole table. Medians, levels and scales are taken
from the training rows only, so that test rows stay unseen.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from cutlayer.data.tables.columns import Holds, holds, refuse_infinite, refuse_text
from cutlayer.data.tables.encode import MISSING_LEVEL, FittedColumn
from cutlayer.data.task import ColumnKind

if TYPE_CHECKING:
    import polars as pl

_Array = npt.NDArray[np.float64]


def fit_column(
    series: "pl.Series", train: npt.NDArray[np.int64], scaling: str, notes: list[str]
) -> tuple[FittedColumn, _Array] | None:
    """Fit a clean column and return its numbers too; None, with a note, if training rows hold a single value."""
    column = _recognised(series, train)
    codes = column.codes(series)
    seen = codes[train]
    column = replace(column, fill=_fill(column.kind, seen[~np.isnan(seen)]))
    _note(column, series, codes, notes)
    values = np.where(np.isnan(codes), column.fill, codes)
    seen = values[train]
    if seen.min() == seen.max():
        notes.append(f"Dropped column {series.name!r}: all training rows hold the same value.")
        return None
    if column.kind is ColumnKind.NUMERIC:
        start, span = _scale(seen, scaling)
        column = replace(column, start=start, span=span)
    return column, values


def _recognised(series: "pl.Series", train: npt.NDArray[np.int64]) -> FittedColumn:
    """Tell numbers, two values and categories apart; refuse text that is none of them."""
    held = holds(series)
    values = series.drop_nulls()
    distinct = values.n_unique()
    if distinct == 2 and not (held is Holds.TEXT and series.null_count()):
        if series.dtype.is_float():
            refuse_infinite(series)
        return FittedColumn(series.name, ColumnKind.BINARY, held, tuple(values.unique().sort().to_list()))
    if held is not Holds.TEXT:
        return FittedColumn(series.name, ColumnKind.NUMERIC, held)
    refuse_text(series, distinct)
    seen = series.fill_null(MISSING_LEVEL).gather(train).unique().to_list()
    levels = sorted(seen, key=lambda level: (level == MISSING_LEVEL, level))
    return FittedColumn(series.name, ColumnKind.CATEGORICAL, held, tuple(levels))


def _fill(kind: ColumnKind, seen: _Array) -> float:
    if kind is ColumnKind.CATEGORICAL or not len(seen):
        return 0.0
    if kind is ColumnKind.BINARY:  # a median could fall between the two values
        return float(seen.mean() > 0.5)
    return float(np.median(seen))


def _scale(seen: _Array, scaling: str) -> tuple[float, float]:
    if scaling == "none":
        return 0.0, 1.0
    if scaling == "minmax":
        start, span = seen.min(), seen.max() - seen.min()
    else:
        start, span = seen.mean(), seen.std()
    return float(start), float(span) if span > 0 else 1.0


def _note(column: FittedColumn, series: "pl.Series", codes: _Array, notes: list[str]) -> None:
    """Note what a reader of results must know: filled gaps, unseen levels, and numbers that could be ids."""
    gaps = series.null_count()
    if column.kind is ColumnKind.CATEGORICAL:
        if gaps:
            notes.append(f"Gave {gaps} missing values of column {series.name!r} a level of their own.")
        unseen = int((codes == len(column.levels)).sum())
        if unseen:
            notes.append(f"Column {series.name!r} holds levels in {unseen} rows that no training row has.")
        return
    if gaps:
        filled = (
            f"median of the training rows, {column.fill:g}"
            if column.kind is ColumnKind.NUMERIC
            else f"commoner value of the training rows, {column.levels[int(column.fill)]}"
        )
        notes.append(f"Filled {gaps} missing values of column {series.name!r} with the {filled}.")
    different = not gaps and series.n_unique() == len(series)
    if column.kind is ColumnKind.NUMERIC and series.dtype.is_integer() and different:
        notes.append(
            f"Column {series.name!r} holds a different whole number in every row: if it is an id, name it as id_column."
        )
