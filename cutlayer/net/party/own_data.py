"""Holding: what one party brings, its table or its part of a dataset, in the order of rows that all have in common."""

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import torch
from torch import Tensor

from cutlayer.align.ids import Ids, Rule, read_ids
from cutlayer.data.named import read_dataset
from cutlayer.data.tables.columns import clean
from cutlayer.data.tables.fitted import FittedTable
from cutlayer.data.tables.read import read_table
from cutlayer.data.tables.target import target
from cutlayer.data.task import Features, Goal, Task
from cutlayer.errors import ConfigError, DataError
from cutlayer.net.party.party_file import PartyFile
from cutlayer.rng import generator

if TYPE_CHECKING:
    import polars as pl

FEWEST = 10  # common rows


class TooFew(DataError):
    """Too few rows are common to all. Everybody knows the number, so every party says so itself."""

    def __init__(self, rows: int) -> None:
        super().__init__(f"Expected at least {FEWEST} rows that all parties have, got {rows}: compare the ids.")


@dataclass(frozen=True)
class Holding:
    """A party's columns (if it has some) and labels (if it has them) of the common rows."""

    features: Features | None
    labels: Tensor | None
    goal: Goal | None
    classes: tuple[str, ...]
    train: Tensor
    test: Tensor
    fitted: FittedTable | None = None


class Source(Protocol):
    """Where a party's rows come from."""

    @property
    def ids(self) -> Ids | None:
        """Ids to align by; None where rows are in order already."""
        ...

    def settle(self, rows: Tensor, notes: list[str]) -> Holding:
        """The holding of the common rows."""
        ...


class TableSource:
    """A party's own table."""

    def __init__(self, file: PartyFile) -> None:
        self.file = file
        data = file.data
        self.frame = read_columns(file.at(data.table), data.id)
        self.label = data.label or None
        used = list(data.columns) or [c for c in self.frame.columns if c not in (data.id, self.label)]
        for name in (data.id, *([self.label] if self.label else []), *used):
            if name not in self.frame.columns:
                raise DataError(f"Expected a column {name!r} in {data.table}, got {', '.join(self.frame.columns)}.")
        if {data.id, self.label} & set(used):
            raise ConfigError(f"Expected neither the id nor the label among the columns of {file.path}.")
        self.columns = used if not file.is_label_party or file.run.columns_at_label_party else []

    @cached_property
    def ids(self) -> Ids:
        """The id column, spelt as all parties agreed."""
        return ids_in(self.frame, self.file)

    def settle(self, rows: Tensor, notes: list[str]) -> Holding:
        """Take the common rows, in their order, and fit the columns on those that are for training."""
        if len(rows) < FEWEST:
            raise TooFew(len(rows))
        frame, data = self.frame[rows.numpy()], self.file.data
        train, test = split(len(rows), self.file.run.test, self.file.run.seed)
        fitted = None
        if self.columns:
            fitted = FittedTable.fit(
                [clean(frame[name]) for name in self.columns],
                train.numpy(),
                coding=data.coding,
                scaling=data.scaling,
                missing=data.missing,
                notes=notes,
            )
            if not fitted.columns:
                raise DataError(f"Expected a column of {data.table} that varies over the common rows, got none.")
        aim = target(frame[self.label], None) if self.label else None
        return Holding(
            None if fitted is None else fitted.features(frame),
            None if aim is None else aim.labels,
            None if aim is None else aim.goal,
            () if aim is None else aim.classes,
            train,
            test,
            fitted,
        )


class DatasetSource:
    """One party's part of a dataset by name, whose rows are in order already: to try things out."""

    ids = None

    def __init__(self, file: PartyFile) -> None:
        self.file = file
        task: Task = read_dataset(file.run.dataset)
        run = file.run
        if task.label_party != run.label_party or tuple(task.features) != run.roster.order:
            raise ConfigError(
                f"Expected the parties of {run.dataset}: {', '.join(task.features)}, labels at {task.label_party}; got "
                f"{', '.join(run.roster.order)}, labels at {run.label_party}."
            )
        own = file.party.name
        labels = task.labels if file.is_label_party else None
        self.holding = Holding(
            task.features.get(own),
            labels,
            task.goal if file.is_label_party else None,
            task.classes,
            task.train,
            task.test,
        )

    def settle(self, rows: Tensor, notes: list[str]) -> Holding:
        """The rows are common already."""
        return self.holding


def source_of(file: PartyFile) -> Source:
    """What a party's file says it holds."""
    return DatasetSource(file) if file.run.dataset else TableSource(file)


def read_columns(path: Path, id_column: str) -> "pl.DataFrame":
    """Read a table, ids as text."""
    return read_table(path, id_column)[0]


def ids_in(frame: "pl.DataFrame", file: PartyFile) -> Ids:
    """The ids of a table, spelt as the manifest says."""
    run, data = file.run, file.data
    return read_ids(
        frame[data.id].to_list(), rule=Rule(run.ids), country=run.country, keep_first=data.repeated == "first"
    )


def split(rows: int, test: float, seed: int) -> tuple[Tensor, Tensor]:
    """Training and test rows. From the shared seed alone: drawing by class would tell about labels."""
    order = torch.randperm(rows, generator=generator(seed, "deployed", "test"))
    held = max(1, round(test * rows))
    return order[held:].sort().values, order[:held].sort().values


def fitted_again(text: str) -> FittedTable:
    """The encoding that a party trained with."""
    try:
        return FittedTable.from_json(json.loads(text))
    except json.JSONDecodeError as error:
        raise DataError("Expected the encoding of a finished run, got something else: the file is damaged.") from error
