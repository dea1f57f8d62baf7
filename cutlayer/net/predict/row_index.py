"""Row index: the rows that a party can be asked about, found by tag, and the numbers by which parties name them.

The label party numbers every id when it first asks about it, from zero, the same for all parties. A number then stands
for one person for as long as the processes live, which cuts that remember something per row rely on.
"""

import hmac
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from cutlayer.align.ids import Rule, read_ids
from cutlayer.data.tables.read import read_table
from cutlayer.data.task import Features
from cutlayer.defence import changes
from cutlayer.errors import ConfigError, DataError, RunError
from cutlayer.net.party.finished_run import FinishedRun
from cutlayer.net.party.manifest import RunManifest
from cutlayer.net.party.own_data import DatasetSource, TableSource, ids_in
from cutlayer.plan import part_of

TAG = 16  # bytes: two of ten million ids share a tag with a chance below 2^-80


def tag(id_: bytes, run: RunManifest) -> bytes:
    """What stands for an id on the wire. Only those who know the salt can try ids on it."""
    return hmac.digest(run.salt.encode(), b"cutlayer predict\0" + id_, "sha256")[:TAG]


def normalise_ids(values: Iterable[object], run: RunManifest) -> list[bytes]:
    """Ids in the form that all parties use; empty where there is none. A dataset's ids are its row numbers."""
    rule = Rule(run.ids)
    forms = (read_ids([value], rule=rule, country=run.country).values for value in values)
    return [form[0] if form else b"" for form in forms]


@dataclass(frozen=True)
class RowIndex:
    """A party's columns, and in which row of them a tag's person stands."""

    features: Features
    rows: dict[bytes, int]


def row_index_of(run: FinishedRun) -> RowIndex | None:
    """The rows that a party can be asked about; None at a label party without columns, which needs no rows."""
    file, manifest = run.file, run.file.run
    if manifest.dataset:
        features = DatasetSource(file).data.features
        if features is None:
            return None
        return RowIndex(features, {tag(str(row).encode(), manifest): row for row in range(len(features.values))})
    if run.fitted is None:
        return None
    if changes(run.plan.defences, "features") and (index := _training_rows(run)) is not None:
        return index
    path = file.at(file.serve.table or file.data.table)
    frame, _ = read_table(path, file.data.id, text=run.fitted.text)
    if file.data.id not in frame.columns:
        raise DataError(f"Expected the id column {file.data.id!r} in {path}, got {', '.join(frame.columns)}.")
    ids = ids_in(frame, file)
    features = run.fitted.features(frame)
    if len(features.values) == 1:  # shapes are found on two rows
        assert isinstance(features.values, Tensor)
        features = replace(features, values=features.values.repeat(2, 1))
    return RowIndex(features, {tag(id_, manifest): int(row) for id_, row in zip(ids.values, ids.rows, strict=True)})


def _training_rows(run: FinishedRun) -> RowIndex | None:
    """The records of training and no others, if a defence draws something once per record; None if none does.

    A fresh draw for a record would give away more of it than the defence promises.
    """
    file, manifest = run.file, run.file.run
    source, rows = TableSource(file), run.folder.rows()
    data = source.select(rows, [])
    assert data.features is not None and data.fitted is not None and run.fitted is not None
    part = part_of(run.name, data.features, manifest.facts(run.classes), run.plan)
    if part.features.values is data.features.values:
        return None
    if file.serve.table:
        raise ConfigError(
            "Expected no `table` in [serve]: a defence of this run draws something once per record, so only records of "
            "the training can be predicted; leave it out."
        )
    if data.fitted.to_json() != run.fitted.to_json():
        raise RunError(f"Expected {file.data.table} as it was in training, got another: restore it, or train again.")
    ids = dict(zip(source.ids.rows.tolist(), source.ids.values, strict=True))
    return RowIndex(data.features, {tag(ids[row], manifest): place for place, row in enumerate(rows.tolist())})


class RowNumbers:
    """In which of a party's rows each number stands, from zero."""

    def __init__(self, device: str) -> None:
        self.device = device
        self._rows = torch.full((1024,), -1, dtype=torch.int64)
        self.count = 0

    def add(self, rows: Sequence[int]) -> None:
        """Give the next numbers to these rows; -1 for an id without a row."""
        end = self.count + len(rows)
        if end > len(self._rows):
            grown = torch.full((2 * end,), -1, dtype=torch.int64)
            grown[: self.count] = self._rows[: self.count]
            self._rows = grown
        self._rows[self.count : end] = torch.tensor(rows, dtype=torch.int64)
        self.count = end

    def all_known(self, numbers: Tensor) -> bool:
        """Whether every number belongs to a row that is here."""
        inside = bool(((numbers >= 0) & (numbers < self.count)).all())
        return inside and bool((self._rows[numbers] >= 0).all())

    def rows(self, numbers: Tensor) -> Tensor:
        """The rows that these numbers stand for."""
        return self._rows[numbers.cpu()].to(self.device)
