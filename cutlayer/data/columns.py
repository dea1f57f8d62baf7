"""Columns of a user's table: tell what each holds, and fill what is missing.

What a column holds (its kind) is told from the whole table. Medians and levels are taken from the
training rows only, so that test rows stay unseen.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import numpy.typing as npt

from cutlayer.data.read_table import MISSING_WORDS
from cutlayer.data.task import ColumnKind
from cutlayer.errors import DataError

if TYPE_CHECKING:
    import polars as pl

_Array = npt.NDArray[Any]
LEVELS_ALWAYS = 50  # text with up to so many values is a category,
LEVELS_SHARE = 0.05  # and so is text with at most one value per twenty rows,
LEVELS_MOST = 1000  # unless one-hot coding would fill the memory
LARGEST = 1e38  # what 32-bit floats hold
MISSING_LEVEL = "(missing)"
_DAY = r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{4}"
_HOUR = r"\d{1,2}:\d{2}(:\d{2}\S*)?"
_DATE = rf"^((({_DAY})([T ]{_HOUR})?)|{_HOUR})$"


@dataclass(frozen=True)
class Prepared:
    """One column of the table as numbers without gaps; categories as codes, an unseen one coded last."""

    name: str
    kind: ColumnKind
    values: _Array  # (n,) float64
    levels: tuple[str, ...] = ()  # of a category, or the two values of a binary column


def clean(series: "pl.Series") -> "pl.Series":
    """Bring a column to Boolean, whole numbers, Float64 or String, and mark what is missing."""
    import polars as pl

    kind = series.dtype
    if kind.is_temporal():
        _refuse_dates(series.name)
    if kind.is_nested() or kind in (pl.Binary, pl.Object):
        raise DataError(f"Expected one number or word per row in column {series.name!r}, got {kind}: leave it out.")
    if kind == pl.Boolean or kind.is_integer():
        return series
    if kind.is_numeric():
        return series.cast(pl.Float64).fill_nan(None)
    text = series.cast(pl.String).str.strip_chars()
    text = text.set(text.is_in(MISSING_WORDS), None)
    if text.null_count() < len(text) and text.str.contains(_DATE).all():
        _refuse_dates(series.name)
    numbers = text.cast(pl.Float64, strict=False)
    return numbers if numbers.null_count() == text.null_count() < len(text) else text


def _refuse_dates(name: str) -> NoReturn:
    raise DataError(
        f"Expected numbers or categories in column {name!r}, got dates or times: "
        "leave it out, or turn it into a number such as an age in days."
    )


def refuse_missing(table: Sequence["pl.Series"]) -> None:
    """Name every column with missing values and their number."""
    counts = [(series.name, series.null_count()) for series in table if series.null_count()]
    if counts:
        listed = ", ".join(f"{name!r} ({count})" for name, count in counts)
        raise DataError(
            f"Expected no missing values (missing='refuse'), got some in {listed}: "
            "fill them, leave the columns out, or pass missing='impute'."
        )


def prepare_all(table: Sequence["pl.Series"], train: _Array, missing: str, notes: list[str]) -> dict[str, Prepared]:
    """Turn clean columns into numbers, leave constant ones out, and note those that say the same."""
    if missing == "refuse":
        refuse_missing(table)
    made = [column for series in table if (column := prepare(series, train, notes)) is not None]
    first: dict[object, str] = {}
    for column in made:
        same = first.setdefault((column.kind, column.levels, column.values.tobytes()), column.name)
        if same != column.name:
            notes.append(f"Columns {same!r} and {column.name!r} hold identical values; both were kept.")
    return {column.name: column for column in made}


def prepare(series: "pl.Series", train: _Array, notes: list[str]) -> Prepared | None:
    """Turn a clean column into numbers; None, with a note, if training rows hold a single value."""
    import polars as pl

    values = series.drop_nulls()
    distinct = values.n_unique()
    if series.dtype == pl.String:
        if distinct == 2 and not series.null_count():
            made = _binary(series, train, notes)
        else:
            _refuse_text(series, distinct)
            made = _category(series, train, notes)
    elif distinct == 2:
        made = _binary(series, train, notes)
    else:
        made = _numeric(series, train, notes)
        if series.dtype.is_integer() and distinct == len(series):
            notes.append(
                f"Column {series.name!r} holds a different whole number in every row: "
                "if it is an id, name it as id_column."
            )
    seen = made.values[train]
    if seen.min() == seen.max():
        notes.append(f"Dropped column {series.name!r}: all training rows hold the same value.")
        return None
    return made


def _numeric(series: "pl.Series", train: _Array, notes: list[str]) -> Prepared:
    import polars as pl

    values = series.cast(pl.Float64).fill_null(float("nan")).to_numpy().copy()
    beyond = int((np.abs(values) > LARGEST).sum())
    if beyond:
        raise DataError(
            f"Expected finite numbers in column {series.name!r}, got {beyond} that are infinite or beyond "
            f"{LARGEST:g}: correct them, or leave them empty to have them imputed."
        )
    gaps = np.isnan(values)
    if gaps.any():
        seen = values[train][~gaps[train]]
        middle = float(np.median(seen)) if len(seen) else 0.0
        values[gaps] = middle
        notes.append(
            f"Filled {int(gaps.sum())} missing values of column {series.name!r} "
            f"with the median of the training rows, {middle:g}."
        )
    return Prepared(series.name, ColumnKind.NUMERIC, values)


def _binary(series: "pl.Series", train: _Array, notes: list[str]) -> Prepared:
    import polars as pl

    low, high = series.drop_nulls().unique().sort().to_list()
    if series.dtype.is_float() and max(abs(low), abs(high)) > LARGEST:
        _numeric(series, train, notes)  # raises, and says why
    values = (series == high).cast(pl.Float64).fill_null(float("nan")).to_numpy().copy()
    gaps = np.isnan(values)
    if gaps.any():
        seen = values[train][~gaps[train]]
        often = float(len(seen) > 0 and seen.mean() > 0.5)  # a median could fall between the two values
        values[gaps] = often
        notes.append(
            f"Filled {int(gaps.sum())} missing values of column {series.name!r} "
            f"with the commoner value of the training rows, {high if often else low}."
        )
    return Prepared(series.name, ColumnKind.BINARY, values, (str(low), str(high)))


def _category(series: "pl.Series", train: _Array, notes: list[str]) -> Prepared:
    import polars as pl

    missing = series.null_count()
    if missing:
        series = series.fill_null(MISSING_LEVEL)
        notes.append(f"Gave {missing} missing values of column {series.name!r} a level of their own.")
    levels = sorted(series.gather(train).unique().to_list(), key=lambda level: (level == MISSING_LEVEL, level))
    codes = series.replace_strict(
        levels, list(range(len(levels))), default=len(levels), return_dtype=pl.Float64
    ).to_numpy()
    unseen = int((codes == len(levels)).sum())
    if unseen:
        notes.append(f"Column {series.name!r} holds levels in {unseen} rows that no training row has.")
    return Prepared(series.name, ColumnKind.CATEGORICAL, codes, tuple(levels))


def _refuse_text(series: "pl.Series", distinct: int) -> None:
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
