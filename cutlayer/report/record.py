"""Record: all that a report is made of, as plain data. The audit fills it; the report only reads it.

One row is one finding: one attack, on one victim, under one setup (a defence and its strength), with
one seed. What has not run stands in `missing`, with whatever columns of a row are known of it.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import isfinite
from pathlib import Path
from typing import Any, TypedDict

from cutlayer._validate import one_of
from cutlayer.errors import ConfigError, RunError
from cutlayer.finding import Correlations, Roc, Status
from cutlayer.json_types import Json
from cutlayer.report.row import Row, check_keys, order, read_missing, read_row

BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")
NAME = "record.json"


class NamedColumn(TypedDict):
    """How well a column was guessed."""

    name: str
    value: float
    baseline: float


class Images(TypedDict):
    """Pictures as PNG in base64."""

    originals: list[str]
    guesses: list[str]


class Extra(TypedDict, total=False):
    """What is known of a finding beyond its numbers."""

    columns: list[NamedColumn]
    roc: Roc
    images: Images
    correlations: Correlations
    dcs: float  # how well a defence keeps both secret and accuracy


class ParetoOption(TypedDict):
    """A setup that no other beats."""

    defence: str
    strength: str
    accuracy: float
    leakage: float  # the worst advantage
    bytes: float
    seconds: float


class Choice(TypedDict):
    """The recommendation."""

    choice: str | None  # a setup's name; None if none achieves what was asked for
    runner_up: str | None
    constraints: Sequence[str]
    why: str
    what_would_change: str | Sequence[str]
    pareto: Sequence[ParetoOption]


@dataclass(frozen=True)
class Record:
    """What was audited, what was found, what is missing and how to repeat it.

    facts: what was audited, any of: data, sha256, train_rows, test_rows, goal, classes, parties (a list of
        {"name", "columns": how many, "names": [...] for tables}), label_party, bottom, top, width, cut,
        epochs, batch_size, optimiser, seeds, notes, setup_notes (by setup, a list of texts). Others are shown under
        their own name.
    rows: findings, each with exactly the keys of COLUMNS; a number that is unknown is None.
    extras: by a row's cell, or "cell/victim" where victims share a cell.
    missing: what has not run: mappings with some of COLUMNS, at least defence, attack and seed.
    choice: the recommendation, if one was asked for and found.
    command: what to type to repeat it. versions: by package.

    A row that says "done" without a finite value and baseline is turned into one that failed.
    """

    title: str
    facts: Mapping[str, Json] = field(default_factory=dict)
    rows: Sequence[Row] = ()
    extras: Mapping[str, Extra] = field(default_factory=dict)
    missing: Sequence[Row] = ()
    choice: Choice | None = None
    command: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        rows = [read_row(row, f"row {number}") for number, row in enumerate(self.rows)]
        lost = [read_missing(row, f"missing {number}") for number, row in enumerate(self.missing)]
        object.__setattr__(self, "rows", sorted(rows, key=order))
        object.__setattr__(self, "missing", sorted(lost, key=order))
        cells = {row["cell"] for row in rows} | {f"{row['cell']}/{row['victim']}" for row in rows}
        for cell, extra in self.extras.items():
            _check_extra(cell, extra, cells)
        if self.choice is not None:
            check_keys(self.choice, Choice.__annotations__, "the choice")
            for key, value in (("constraints", self.choice["constraints"]), ("pareto", self.choice["pareto"])):
                if not isinstance(value, list | tuple):
                    raise ConfigError(f"Expected {key} of the choice to be a list, got {value!r}.")
            for option in self.choice["pareto"]:
                check_keys(option, ParetoOption.__annotations__, "the choice's pareto")

    @property
    def every(self) -> list[Row]:
        """Rows and what is missing, in order."""
        return sorted([*self.rows, *self.missing], key=order)

    @property
    def finished(self) -> bool:
        """Whether nothing is missing."""
        return all(row["status"] is not Status.MISSING for row in self.every)

    def extra(self, row: Row) -> Extra:
        """What is known of a finding beyond its numbers."""
        return self.extras.get(f"{row['cell']}/{row['victim']}", self.extras.get(row["cell"], {}))

    def to_json(self) -> str:
        """The same as text."""
        return json.dumps(_plain(asdict(self)), indent=1, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> "Record":
        """Read it back."""
        try:
            data = json.loads(text)
        except json.JSONDecodeError as error:
            raise RunError(f"Expected the JSON of a record, got something else: {error}.") from error
        names = tuple(cls.__dataclass_fields__)
        if not isinstance(data, dict):
            raise RunError(f"Expected the JSON of a record to be an object, got {type(data).__name__}.")
        check_keys(data, names, "the record")
        return cls(**data)

    @classmethod
    def open(cls, folder: Path | str) -> "Record":
        """Read a study folder's record."""
        path = Path(folder) / NAME
        if not path.is_file():
            raise RunError(f"Expected a study folder with {NAME} at {folder}, found none; make one with an audit.")
        try:
            return cls.from_json(path.read_text(encoding="utf-8"))
        except (RunError, ConfigError, UnicodeDecodeError) as error:
            raise RunError(f"The record {path} is damaged: {error}") from error


def _check_extra(cell: str, extra: Extra, cells: set[str]) -> None:
    if cell not in cells:
        raise ConfigError(f"Expected extras {cell!r} to belong to a row's cell.")
    for key in extra:
        one_of(f"extra of cell {cell}", key, Extra.__annotations__)
    for column in extra.get("columns", ()):
        check_keys(column, ("name", "value", "baseline"), f"a column of cell {cell}")
    if roc := extra.get("roc"):
        check_keys(roc, ("fpr", "tpr", "tpr_at_1", "tpr_at_01"), f"the roc of cell {cell}")
        if len(roc["fpr"]) != len(roc["tpr"]):
            raise ConfigError(f"Expected as many fpr as tpr in the roc of cell {cell}.")
    if matrices := extra.get("correlations"):
        check_keys(matrices, ("truth", "guess"), f"the correlations of cell {cell}")
    if images := extra.get("images"):
        check_keys(images, ("originals", "guesses"), f"the images of cell {cell}")
        if len(images["originals"]) != len(images["guesses"]):
            raise ConfigError(f"Expected as many originals as guesses in the images of cell {cell}.")
        for picture in (*images["originals"], *images["guesses"]):
            if not (isinstance(picture, str) and BASE64.fullmatch(picture)):
                raise ConfigError(f"Expected the images of cell {cell} as base64 text.")


def _plain(value: Any) -> Any:
    """As JSON has it: tuples are lists, and what is not a finite number is null."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        return float(value) if isfinite(value) else None
    return value
