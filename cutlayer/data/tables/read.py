"""Read a user's CSV or Parquet file and refuse, in one sentence, what would be misread.

The format is read from the first bytes, not from the file's name. Polars fills a short line with
missing values and renames a repeated header without a word, so both are checked here first.
"""

import csv
import gzip
import hashlib
import io
import re
from collections import Counter
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from cutlayer.errors import DataError

if TYPE_CHECKING:
    import polars as pl

MISSING_WORDS = ("", "NA", "N/A", "n/a", "null", "NULL", "NaN", "nan")
LONGEST = 40  # letters of a name that an error quotes
_JSON = re.compile(rb'(\xef\xbb\xbf)?\s*(\[\s*[\[{"\]\d-]|\{\s*["}])')  # a CSV may begin with [name]
_SEPARATORS = (",", ";", "\t", "|")


def read_table(
    path: Path, id_column: str | None = None, *, text: Collection[str] = (), notes: list[str] | None = None
) -> tuple["pl.DataFrame", str]:
    """Return the table and the SHA-256 of the file as it lies on disk.

    `id_column` is kept as text, so that ids such as 007 and 7 stay different; so are the columns in
    `text`, which held text in training and could look like numbers in a few fresh rows. A column without a
    name is called by its position, `column1` for the first, which `notes` then say.
    """
    if not path.is_file():
        raise DataError(f"Expected a CSV or Parquet file at {path}, found none: check the path.")
    data = path.read_bytes()
    digest = hashlib.sha256(data).hexdigest()
    if data[:4] == b"PAR1":
        frame = _parquet(data, path)
        return _headed(frame, _name_all(frame.columns, notes), path), digest
    if data[:2] == b"\x1f\x8b":
        data = _unzipped(data, path)
    if data[:4] == b"PK\x03\x04" or data[:4] == b"\xd0\xcf\x11\xe0":
        raise DataError(f"Expected a CSV or Parquet file, got a spreadsheet or archive: save {path} as CSV.")
    if _JSON.match(data):
        raise DataError(f"Expected a CSV or Parquet file, got JSON at {path}: save it as CSV.")
    return _csv(data, path, {*text, (id_column or "").strip()}, notes), digest


def refuse_repeated_ids(ids: "pl.Series") -> None:
    """An id stands for one person, so it must be there, and only once."""
    if ids.null_count():
        raise DataError(
            f"Expected an id in every row, got {ids.null_count()} rows without one in column {ids.name!r}: "
            "remove these rows."
        )
    repeats = len(ids) - ids.n_unique()
    if repeats:
        raise DataError(
            f"Expected a different id in every row of column {ids.name!r}, got {repeats} repeats: keep one row per id."
        )


def _parquet(data: bytes, path: Path) -> "pl.DataFrame":
    import polars as pl

    try:
        return pl.read_parquet(io.BytesIO(data))
    except (pl.exceptions.PolarsError, OSError) as error:
        raise DataError(f"Expected a whole Parquet file at {path}, got one that cannot be read.") from error


def _unzipped(data: bytes, path: Path) -> bytes:
    try:
        return gzip.decompress(data)
    except (OSError, EOFError) as error:
        raise DataError(f"Expected a whole gzip file at {path}, got a damaged one: copy it again.") from error


def _csv(data: bytes, path: Path, text: Collection[str], notes: list[str] | None) -> "pl.DataFrame":
    import polars as pl

    data = data.removeprefix(b"\xef\xbb\xbf").lstrip(b"\r\n")
    if not data.strip():
        raise DataError(f"Expected a header and rows in {path}, got an empty file.")
    try:
        header = data.split(b"\n", 1)[0].decode("utf-8").rstrip("\r")
    except UnicodeDecodeError as error:
        raise DataError(f"Expected UTF-8 text in {path}, got another encoding: save it as UTF-8.") from error
    separator = max(_SEPARATORS, key=lambda mark: len(_cells(header, mark)))
    names = _name_all(_cells(header, separator), notes)
    _refuse_ragged(data, separator, path)
    numbered = [f"c{number}" for number in range(len(names))]
    as_text = [f"c{number}" for number, name in enumerate(names) if name in text]
    try:
        frame = pl.read_csv(
            io.BytesIO(data),
            separator=separator,
            new_columns=numbered,
            infer_schema_length=None,
            null_values=list(MISSING_WORDS),
            schema_overrides=dict.fromkeys(as_text, pl.String),
        )
    except pl.exceptions.PolarsError as error:
        why = "another encoding: save it as UTF-8" if "utf-8" in str(error) else "one that cannot be read"
        raise DataError(f"Expected a CSV file of UTF-8 text at {path}, got {why}.") from error
    blank = pl.all_horizontal(pl.all().is_null())
    return _headed(frame.filter(~blank), names, path)


def _cells(line: str, separator: str) -> list[str]:
    return [cell.strip() for cell in next(csv.reader([line], delimiter=separator), [])]


def _name_all(header: list[str], notes: list[str] | None) -> list[str]:
    """Strip blanks from the names; a column without one, such as pandas' index, is called by its position."""
    names = [name.strip() or f"column{place}" for place, name in enumerate(header, start=1)]
    unnamed = [name for name, given in zip(names, header, strict=True) if not given.strip()]
    if notes is not None and unnamed:
        those = "A column has no name and is" if len(unnamed) == 1 else f"{len(unnamed)} columns have no name and are"
        count = f"if it only counts the rows, leave it out with --without {unnamed[0]}"
        notes.append(f"{those} called by position: {_few(unnamed)}; {count}.")
    return names


def _headed(frame: "pl.DataFrame", names: list[str], path: Path) -> "pl.DataFrame":
    """Give the columns their names, and refuse names that cannot work."""
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise DataError(f"Expected different column names in {path}, got {_few(repeated)} more than once: rename one.")
    if frame.height == 0:
        raise DataError(f"Expected rows below the header of {path}, got none.")
    frame.columns = names
    return frame


def _few(names: list[str]) -> str:
    """Three names at most, cut short: what is no table after all must not spill its records."""
    shown = ", ".join(repr(name if len(name) <= LONGEST else f"{name[:LONGEST]}…") for name in names[:3])
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more"


def _refuse_ragged(data: bytes, separator: str, path: Path) -> None:
    """Count the fields of every line without a loop; what stands between quotation marks is one field."""
    raw = np.frombuffer(data, dtype=np.uint8)
    quote = raw == ord('"')
    outside = (np.cumsum(quote, dtype=np.uint8) & 1) == 0  # wraps at 256, which keeps odd and even apart
    if not outside[-1]:
        raise DataError(f"Expected every quotation mark in {path} to be closed, got an odd number of them.")
    ends = np.flatnonzero((raw == ord("\n")) & outside)
    if raw[-1] != ord("\n"):
        ends = np.append(ends, len(raw))
    starts = np.append(0, ends[:-1] + 1)
    marks = np.flatnonzero((raw == ord(separator)) & outside)
    fields = np.diff(np.searchsorted(marks, ends), prepend=0) + 1
    blank = (ends == starts) | ((ends - starts == 1) & (raw[starts] == ord("\r")))
    wrong = np.flatnonzero(~blank & (fields != fields[0]))
    if len(wrong):
        line = int(np.count_nonzero(raw[: starts[wrong[0]]] == ord("\n"))) + 1
        raise DataError(
            f"Expected {fields[0]} fields in every line of {path}, got {fields[wrong[0]]} in line {line}"
            f" ({len(wrong)} such lines): complete them, or put text that holds {separator!r} "
            "in quotation marks."
        )
