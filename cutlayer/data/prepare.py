"""What loaders of tables share: reading delimited text, coding categories, scaling columns."""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cutlayer.data.task import Column, ColumnKind
from cutlayer.errors import DataError

Array = npt.NDArray[np.float64]
Whole = npt.NDArray[np.int64]  # class numbers, codes or row numbers
Labels = Whole | Array  # class numbers, or numbers for regression
Text = npt.NDArray[np.str_]


@dataclass(frozen=True, slots=True)
class Raw:
    """A table as numbers, before columns are dealt out and rows are split."""

    values: Array  # (n, d)
    names: tuple[str, ...]
    labels: Labels  # (n,)
    classes: tuple[str, ...] = ()


def read_delimited(data: bytes, *, delimiter: str = ",", names: Sequence[str] = ()) -> dict[str, Text]:
    """Read delimited text into columns of strings; without `names` the first line holds them."""
    try:
        rows = [row for row in csv.reader(io.StringIO(data.decode("utf-8-sig")), delimiter=delimiter) if row]
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"Expected a table of text separated by {delimiter!r}: {error}.") from error
    header = tuple(names) or tuple(name.strip() for name in (rows.pop(0) if rows else ()))
    for number, row in enumerate(rows, start=1):
        if len(row) != len(header):
            raise DataError(f"Expected {len(header)} columns in row {number}, got {len(row)}.")
    columns = zip(*rows, strict=True) if rows else ([] for _ in header)
    return {name: np.array(column, dtype=np.str_) for name, column in zip(header, columns, strict=True)}


def take(table: Mapping[str, Text], name: str) -> Text:
    """Return a column by name, or say which are there."""
    if name not in table:
        raise DataError(f"Expected a column {name!r}, got {', '.join(table)}.")
    return table[name]


def numbers(name: str, column: Text) -> Array:
    """Read a column as numbers; an empty cell becomes NaN."""
    try:
        return np.where(column == "", "nan", column).astype(np.float64)
    except ValueError as error:
        raise DataError(f"Expected numbers in column {name!r}: {error}.") from error


def class_numbers(table: Mapping[str, Text], name: str, classes: int) -> Whole:
    """Read a label column that holds class numbers from 0."""
    labels = numbers(name, take(table, name))
    if not np.isin(labels, np.arange(classes)).all():
        raise DataError(f"Expected whole numbers from 0 to {classes - 1} in column {name!r}.")
    return labels.astype(np.int64)


def codes(column: Text) -> tuple[Whole, tuple[str, ...]]:
    """Number the values of a column in alphabetical order."""
    levels, coded = np.unique(column, return_inverse=True)
    return coded.astype(np.int64), tuple(str(level) for level in levels)


def by_frequency(column: Text) -> Whole:
    """Number the values of a column from the most frequent; ties go by the alphabet."""
    _, coded, counts = np.unique(column, return_inverse=True, return_counts=True)
    rank = np.empty(len(counts), dtype=np.int64)
    rank[np.argsort(-counts, kind="stable")] = np.arange(len(counts))
    ranked: Whole = rank[coded]
    return ranked


def numbers_or_codes(name: str, column: Text) -> Array:
    """Read a column as numbers if all its cells are, else number its values alphabetically."""
    try:
        return column.astype(np.float64)
    except ValueError:
        return codes(column)[0].astype(np.float64)


def min_max(values: Array, low: float = 0.0, high: float = 1.0, rows: Whole | None = None) -> Array:
    """Stretch each column from its least and greatest value among `rows` (default all) to [low, high].

    A column that never varies becomes `low`.
    """
    seen = values if rows is None else values[rows]
    least = seen.min(axis=0)
    spread = seen.max(axis=0) - least
    unit: Array = (values - least) / np.where(spread > 0, spread, 1.0)
    return low + (high - low) * unit


def standardise(values: Array, rows: Whole | None = None) -> Array:
    """Give each column mean 0 and deviation 1 among `rows` (default all); constant columns become 0."""
    seen = values if rows is None else values[rows]
    spread = seen.std(axis=0)
    scaled: Array = (values - seen.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    return scaled


def balanced(labels: Labels, rng: np.random.Generator) -> Whole:
    """Draw as many rows of every class as the rarest has; return their sorted numbers."""
    least = np.bincount(labels).min()
    drawn = [rng.permutation(np.flatnonzero(labels == code))[:least] for code in np.unique(labels)]
    return np.sort(np.concatenate(drawn))


def plain_columns(names: Sequence[str], values: Array) -> tuple[Column, ...]:
    """Describe scaled columns: binary where only 0 and 1 occur, numeric otherwise."""
    binary = ((values == 0) | (values == 1)).all(axis=0) & (values.min(axis=0) < values.max(axis=0))
    kinds = [ColumnKind.BINARY if two else ColumnKind.NUMERIC for two in binary]
    return tuple(Column(name, kind) for name, kind in zip(names, kinds, strict=True))
