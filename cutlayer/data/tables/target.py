"""The label column of a user's table: what is to be predicted, and its classes."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from cutlayer.data.tables.columns import LARGEST, clean
from cutlayer.data.task import Goal
from cutlayer.errors import ConfigError, DataError

if TYPE_CHECKING:
    import polars as pl

MANY = 20  # more different values than this, with decimals, are a quantity and not classes


@dataclass(frozen=True)
class LabelColumn:
    """Labels as a task holds them."""

    labels: Tensor
    goal: Goal
    classes: tuple[str, ...]


def target(series: "pl.Series", goal: Goal | None) -> LabelColumn:
    """Tell classes from quantities; number the classes in sorted order and keep their names."""
    import polars as pl

    series = clean(series)
    missing = series.null_count()
    if missing:
        raise DataError(
            f"Expected a label in every row, got {missing} of {len(series)} rows without one in column "
            f"{series.name!r}: remove these rows from the table."
        )
    distinct = series.n_unique()
    if distinct == 1:
        raise DataError(
            f"Expected at least two different labels in column {series.name!r}, got only "
            f"{_named(series[0])!r}: check the column or the rows."
        )
    numbers = series.dtype.is_numeric()
    if numbers and bool((series.cast(pl.Float64).abs() > LARGEST).any()):
        raise DataError(f"Expected finite labels in column {series.name!r}, got infinite ones: correct them.")
    if goal is Goal.REGRESSION and not numbers:
        raise ConfigError(
            f"Expected numbers in the label column {series.name!r} for goal='regression', got "
            f"{_named(series[0])!r}: leave goal out to predict classes."
        )
    decimals = series.dtype.is_float() and bool((series != series.floor()).any())
    if goal is Goal.REGRESSION or (goal is None and decimals and distinct > MANY):
        return LabelColumn(torch.from_numpy(series.cast(pl.Float32).to_numpy().copy()), Goal.REGRESSION, ())
    return _classes(series, goal)


def _classes(series: "pl.Series", goal: Goal | None) -> LabelColumn:
    import polars as pl

    counts = series.value_counts(name="count").sort(series.name)
    values = counts[series.name]
    if counts["count"].min() == 1:
        alone = values.filter(counts["count"] == 1)
        hint = (
            ", or pass goal='regression' (--goal regression) if it is a quantity" if series.dtype.is_numeric() else ""
        )
        raise DataError(
            f"Expected at least two rows of every class in column {series.name!r}, got one row of "
            f"{_named(alone[0])!r} ({len(alone)} such classes): merge or remove rare classes{hint}."
        )
    if goal is Goal.BINARY and len(values) != 2:
        raise ConfigError(
            f"Expected two classes in column {series.name!r} for goal='binary', got {len(values)}: "
            "pass goal='multiclass'."
        )
    codes = series.replace_strict(values, pl.Series(range(len(values))), return_dtype=pl.Int64)
    goal = goal or (Goal.BINARY if len(values) == 2 else Goal.MULTICLASS)
    return LabelColumn(torch.from_numpy(codes.to_numpy().copy()), goal, tuple(map(_named, values.to_list())))


def _named(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
