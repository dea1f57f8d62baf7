"""Book: the rows that a party can be asked about, found by tag; and the numbers by which the parties speak of them.

The label party numbers every id at first sight, from zero, the same for all parties. A number then stands for one
person for as long as the processes live, which is what cuts that remember something per row rely on.
"""

import hmac
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from cutlayer.align.ids import Rule, read_ids
from cutlayer.blocks.sparse import SparseRows
from cutlayer.data.tables.read import read_table
from cutlayer.data.task import Features
from cutlayer.defence import changes
from cutlayer.errors import ConfigError, DataError, RunError
from cutlayer.net.party.manifest import Manifest
from cutlayer.net.party.own_data import DatasetSource, TableSource, ids_in
from cutlayer.net.predict.trained import Trained
from cutlayer.plan import part_of

TAG = 16  # bytes: two of ten million ids share one with a chance below 2^-80


def tag(spelt: bytes, run: Manifest) -> bytes:
    """What stands for an id on the wire. Whoever knows the salt can try ids; whoever does not, cannot."""
    return hmac.digest(run.salt.encode(), b"cutlayer predict\0" + spelt, "sha256")[:TAG]


def spell(values: Iterable[object], run: Manifest) -> list[bytes]:
    """Ids as all parties spell them; empty where there is none. A dataset's ids are its row numbers."""
    rule = Rule(run.ids)
    found = (read_ids([value], rule=rule, country=run.country).values for value in values)
    return [one[0] if one else b"" for one in found]


@dataclass(frozen=True)
class Book:
    """A party's columns, and where in them a tag's row stands."""

    features: Features
    places: dict[bytes, int]


def book_of(trained: Trained) -> Book | None:
    """The rows that a party can be asked about; None at a label party without columns, which needs no rows."""
    file, run = trained.file, trained.file.run
    if run.dataset:
        features = DatasetSource(file).holding.features
        if features is None:
            return None
        return Book(features, {tag(str(row).encode(), run): row for row in range(len(features.values))})
    if trained.fitted is None:
        return None
    if changes(trained.plan.defences, "features") and (book := _as_trained(trained)) is not None:
        return book
    path = file.at(file.serve.table or file.data.table)
    frame, _ = read_table(path, file.data.id, text=trained.fitted.text)
    if file.data.id not in frame.columns:
        raise DataError(f"Expected the id column {file.data.id!r} in {path}, got {', '.join(frame.columns)}.")
    ids = ids_in(frame, file)
    features = trained.fitted.features(frame)
    if len(features.values) == 1:  # shapes are found on two rows
        assert isinstance(features.values, Tensor)
        features = replace(features, values=features.values.repeat(2, 1))
    return Book(features, {tag(one, run): int(row) for one, row in zip(ids.values, ids.rows, strict=True)})


def _as_trained(trained: Trained) -> Book | None:
    """Where a defence draws something once per record, the records of training and no others; None if it does not.

    To answer a record anew would give away more of it than the defence promises.
    """
    file, run = trained.file, trained.file.run
    source, rows = TableSource(file), trained.store.rows()
    holding = source.settle(rows, [])
    assert holding.features is not None and holding.fitted is not None and trained.fitted is not None
    part = part_of(trained.name, holding.features, run.facts(trained.classes), trained.plan)
    if part.features.values is holding.features.values:
        return None
    if file.serve.table:
        raise ConfigError(
            "Expected no `table` in [serve]: a defence of this run draws something once per record, so only records of "
            "the training can be predicted; leave it out."
        )
    if holding.fitted.to_json() != trained.fitted.to_json():
        raise RunError(f"Expected {file.data.table} as it was in training, got another: restore it, or train again.")
    spelt = dict(zip(source.ids.rows.tolist(), source.ids.values, strict=True))
    return Book(holding.features, {tag(spelt[row], run): place for place, row in enumerate(rows.tolist())})


class Numbered:
    """A party's rows under the numbers by which they are asked for, in place of its features."""

    def __init__(self, rows: Tensor | SparseRows, device: str) -> None:
        self.rows, self.device = rows, device
        self._places = torch.full((1024,), -1, dtype=torch.int64)
        self.count = 0

    def add(self, places: Sequence[int]) -> None:
        """Give the next numbers to these rows; -1 where there is none."""
        end = self.count + len(places)
        if end > len(self._places):
            grown = torch.full((2 * end,), -1, dtype=torch.int64)
            grown[: self.count] = self._places[: self.count]
            self._places = grown
        self._places[self.count : end] = torch.tensor(places, dtype=torch.int64)
        self.count = end

    def knows(self, numbers: Tensor) -> bool:
        """Whether every number is one of a row that is here."""
        inside = bool(((numbers >= 0) & (numbers < self.count)).all())
        return inside and bool((self._places[numbers] >= 0).all())

    def index_select(self, dim: int, numbers: Tensor) -> Tensor | SparseRows:
        """Cut rows out, under the name that tensors use."""
        return self.rows.index_select(dim, self._places[numbers.cpu()].to(self.device))
