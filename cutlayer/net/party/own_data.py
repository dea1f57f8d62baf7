"""Own data: what one party brings, its table or its part of a dataset, in the order of the rows that all have."""

from dataclasses import dataclass
from functools import cached_property
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


class TooFewRows(DataError):
    """All parties have too few rows in common. Every party knows the number, so each says so itself."""

    def __init__(self, rows: int) -> None:
        super().__init__(f"Expected at least {FEWEST} rows that all parties have, got {rows}: compare the ids.")


@dataclass(frozen=True)
class AlignedData:
    """The common rows of one party: its columns and its labels, as far as it holds any."""

    features: Features | None
    labels: Tensor | None
    goal: Goal | None
    classes: tuple[str, ...]
    train: Tensor
    test: Tensor
    fitted: FittedTable | None = None


class DataSource(Protocol):
    """Where a party's rows come from."""

    @property
    def ids(self) -> Ids | None:
        """Ids to align by; None where rows are in order already."""
        ...

    def select(self, rows: Tensor, notes: list[str]) -> AlignedData:
        """The common rows, in their order; `notes` gets what the user must know about them."""
        ...


class TableSource:
    """A party's own table."""

    def __init__(self, file: PartyFile) -> None:
        self.file = file
        data = file.data
        self.frame = read_table(file.at(data.table), data.id)[0]
        self.label = data.label or None
        used = list(data.columns) or [name for name in self.frame.columns if name not in (data.id, self.label)]
        for name in (data.id, *([self.label] if self.label else []), *used):
            if name not in self.frame.columns:
                raise DataError(f"Expected a column {name!r} in {data.table}, got {', '.join(self.frame.columns)}.")
        if {data.id, self.label} & set(used):
            raise ConfigError(f"Expected neither the id nor the label among the columns of {file.path}.")
        self.columns = used if not file.is_label_party or file.run.columns_at_label_party else []

    @cached_property
    def ids(self) -> Ids:
        """The id column, normalised as all parties agreed."""
        return ids_in(self.frame, self.file)

    def select(self, rows: Tensor, notes: list[str]) -> AlignedData:
        """Take the common rows, in their order, and fit the encoding of columns on the training rows."""
        if len(rows) < FEWEST:
            raise TooFewRows(len(rows))
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
        goal = target(frame[self.label], None) if self.label else None
        return AlignedData(
            None if fitted is None else fitted.features(frame),
            None if goal is None else goal.labels,
            None if goal is None else goal.goal,
            () if goal is None else goal.classes,
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
        labels = task.labels if file.is_label_party else None
        self.data = AlignedData(
            task.features.get(file.party.name),
            labels,
            task.goal if file.is_label_party else None,
            task.classes,
            task.train,
            task.test,
        )

    def select(self, rows: Tensor, notes: list[str]) -> AlignedData:
        """All rows: they are in order already."""
        return self.data


def data_source(file: PartyFile) -> DataSource:
    """The table or the part of a dataset that a party's file names."""
    return DatasetSource(file) if file.run.dataset else TableSource(file)


def ids_in(frame: "pl.DataFrame", file: PartyFile) -> Ids:
    """The ids of a table, normalised as the manifest says."""
    run, data = file.run, file.data
    return read_ids(
        frame[data.id].to_list(), rule=Rule(run.ids), country=run.country, keep_first=data.repeated == "first"
    )


def split(rows: int, test: float, seed: int) -> tuple[Tensor, Tensor]:
    """Training and test rows, from the shared seed alone: a draw by class would say something about labels."""
    order = torch.randperm(rows, generator=generator(seed, "deployed", "test"))
    count = max(1, round(test * rows))
    return order[count:].sort().values, order[:count].sort().values
