"""Columns of a user's table: what each holds, what in it is missing, and what cannot be used.

In training, what a column holds is decided by all of its values (`clean`). Fresh rows are read as what
the training found (`as_trained`): a handful of rows could look like something else.
"""

from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING, NoReturn

import numpy as np
import numpy.typing as npt

from cutlayer.data.tables.read import MISSING_WORDS
from cutlayer.errors import DataError

if TYPE_CHECKING:
    import polars as pl

_Array = npt.NDArray[np.float64]
LEVELS_ALWAYS = 50  # text with up to so many values is a category,
LEVELS_SHARE = 0.05  # and so is text with at most one value per twenty rows,
LEVELS_MOST = 1000  # unless one-hot coding would fill the memory
LARGEST = 1e38  # what 32-bit floats hold
_DAY = r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{4}"
_HOUR = r"\d{1,2}:\d{2}(:\d{2}\S*)?"
_DATE = rf"^((({_DAY})([T ]{_HOUR})?)|{_HOUR})$"


class Holds(Enum):
    """What stands in the cells of a clean column."""

    BOOLEAN = "booleans"
    NUMBER = "numbers"
    TEXT = "text"


def holds(series: "pl.Series") -> Holds:
    """Tell what a clean column holds."""
    import polars as pl

    if series.dtype == pl.Boolean:
        return Holds.BOOLEAN
    return Holds.NUMBER if series.dtype.is_numeric() else Holds.TEXT


def clean(series: "pl.Series") -> "pl.Series":
    """Bring a column to Boolean, whole numbers, Float64 or String, and mark what is missing."""
    import polars as pl

    kind = series.dtype
    if kind.is_temporal():
        _refuse_dates(series.name)
    if not _simple(series):
        raise DataError(f"Expected one number or word per row in column {series.name!r}, got {kind}: leave it out.")
    series = _marked(series)
    if series.dtype != pl.String:
        return series
    if series.null_count() < len(series) and series.str.contains(_DATE).all():
        _refuse_dates(series.name)
    numbers = series.cast(pl.Float64, strict=False)
    return numbers if numbers.null_count() == series.null_count() < len(series) else series


def as_trained(series: "pl.Series", expected: Holds) -> "pl.Series":
    """Bring a column of fresh rows to what it held in training, or refuse it by name.

    A column without any value is only missing, whatever type the file's reader gave it.
    """
    import polars as pl

    if _simple(series):
        series = _marked(series)
    if series.null_count() == len(series):
        empty = {Holds.BOOLEAN: pl.Boolean, Holds.NUMBER: pl.Float64, Holds.TEXT: pl.String}[expected]
        return pl.Series(series.name, [None] * len(series), dtype=empty)
    if expected is Holds.NUMBER and series.dtype == pl.String:
        numbers = series.cast(pl.Float64, strict=False)
        words = numbers.null_count() - series.null_count()
        if words:
            raise DataError(
                f"Expected numbers in column {series.name!r}, as in training, got text in {words} rows: "
                "correct them or leave them empty."
            )
        return numbers
    if not _simple(series) or holds(series) is not expected:
        hint = ": read it as text" if expected is Holds.TEXT else ""
        raise DataError(
            f"Expected {expected.value} in column {series.name!r}, as in training, got type {series.dtype}{hint}."
        )
    return series


def _simple(series: "pl.Series") -> bool:
    import polars as pl

    kind = series.dtype
    return not (kind.is_temporal() or kind.is_nested() or kind in (pl.Binary, pl.Object))


def _marked(series: "pl.Series") -> "pl.Series":
    """Fewer types, and null for everything that stands for a missing value."""
    import polars as pl

    kind = series.dtype
    if kind == pl.Boolean or kind.is_integer():
        return series
    if kind.is_numeric():
        return series.cast(pl.Float64).fill_nan(None)
    text = series.cast(pl.String).str.strip_chars()
    return text.set(text.is_in(MISSING_WORDS), None)


def with_gaps(series: "pl.Series") -> _Array:
    """Numbers as float64, NaN where one is missing."""
    import polars as pl

    return series.cast(pl.Float64).fill_null(float("nan")).to_numpy().copy()


def _refuse_dates(name: str) -> NoReturn:
    raise DataError(
        f"Expected numbers or categories in column {name!r}, got dates or times: "
        "leave it out, or turn it into a number such as an age in days."
    )


def refuse_missing(
    table: Sequence["pl.Series"], remedy: str = "fill them, leave the columns out, or pass missing='impute'"
) -> None:
    """Name every column with missing values and their number."""
    counts = [(series.name, series.null_count()) for series in table if series.null_count()]
    if counts:
        listed = ", ".join(f"{name!r} ({count})" for name, count in counts)
        raise DataError(f"Expected no missing values (missing='refuse'), got some in {listed}: {remedy}.")


def refuse_infinite(series: "pl.Series") -> None:
    """Count the numbers that 32-bit floats cannot hold."""
    beyond = int((np.abs(with_gaps(series)) > LARGEST).sum())
    if beyond:
        raise DataError(
            f"Expected finite numbers in column {series.name!r}, got {beyond} that are infinite or beyond "
            f"{LARGEST:g}: correct them, or leave them empty to have them imputed."
        )


def refuse_text(series: "pl.Series", distinct: int) -> None:
    """Refuse text of too many values to be a category, and say what it looks like instead."""
    import polars as pl

    rows = len(series)
    most = min(max(LEVELS_ALWAYS, min(LEVELS_MOST, int(LEVELS_SHARE * rows))), rows // 2)
    if distinct <= most:
        return
    values = series.drop_nulls()
    numbers = values.cast(pl.Float64, strict=False)
    commas = values.str.contains(r"^[+-]?\d+,\d+$").mean()
    if 2 * numbers.null_count() < len(values):
        odd = values.filter(numbers.is_null())
        raise DataError(
            f"Expected numbers in column {series.name!r}, got {len(odd)} values that are none, such as "
            f"{odd[0]!r}: correct them or leave them empty."
        )
    if isinstance(commas, float) and commas > 0.5:
        raise DataError(
            f"Expected numbers with a decimal point in column {series.name!r}, got decimal commas such as "
            f"{values[0]!r}: save the table with points."
        )
    raise DataError(
        f"Expected at most {most} different values in the text column {series.name!r}, got {distinct}: "
        "leave it out, name it as id_column, or group its values into fewer levels."
    )
