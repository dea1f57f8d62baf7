"""Unit: one training in words, and what is measured on it. A pure function of words, so it runs anywhere."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, TypedDict

import torch

from cutlayer import data
from cutlayer.data.named import hold_out, read_dataset
from cutlayer.data.split import recut
from cutlayer.data.task import Task
from cutlayer.horizontal.federated import Federated, run_federation
from cutlayer.horizontal.federation import Exchange, Federation
from cutlayer.json_types import Json
from cutlayer.rng import generator
from cutlayer.run import Run
from cutlayer.settings import Settings
from cutlayer.spec import settings
from cutlayer.training import train_plan


class PartWords(TypedDict, total=False):
    """What is stored beside an outcome, for people who read the file: a cell of a study, or a job of a paper."""

    setup: str
    attack: str
    seed: int
    job: dict[str, Json]


@dataclass(frozen=True, kw_only=True)
class Part:
    """What is measured and stored together: attacks, and checks, which are functions of a run by their dotted names."""

    key: str  # what names the outcome in the store
    attacks: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()
    words: PartWords = field(default_factory=PartWords)


@dataclass(frozen=True, kw_only=True)
class Unit:
    """One training, and the parts that are measured on it. All words are the command line's."""

    data: str = ""  # a dataset by name, or
    table: Mapping[str, Json] = field(default_factory=dict)  # a table: path, label, parties, ...
    valid: float = 0.0  # share of the training rows that is held out
    share: float = 0.5  # of the columns, held by the first of two parties
    rows: int = 0  # to train on, drawn by the seed, with up to as many others to test on; 0: as the dataset has it
    training: Settings = field(default_factory=Settings)
    horizontal: str = ""  # clients, method and exchange of horizontal learning: clients=10,method=fedavg
    device: str = "cpu"
    parts: tuple[Part, ...]

    def only(self, parts: Iterable[Part]) -> "Unit":
        """The same training with some of its parts."""
        return replace(self, parts=tuple(parts))

    def task(self) -> Task:
        """Load the data."""
        task = _load_once(self.data, json.dumps(dict(self.table)), self.valid)
        if self.share != 0.5:
            task = recut(task, (self.share, 1 - self.share))
        if self.rows:
            task = some_rows(task, self.rows, generator(self.training.seed, "job rows"))
        return task

    def train(self, task: Task) -> Run | Federated:
        """Train, and keep those messages that the attacks may look at: of averaged weights none does."""
        plan = self.training.plan(device=self.device)
        if not self.horizontal:
            attacked = any(part.attacks for part in self.parts)
            return train_plan(task, plan, keep="ends" if attacked else "none")
        words: dict[str, Any] = settings(self.horizontal, Federation, "horizontal learning")
        federation = Federation(plan=plan, **words)
        return run_federation(task, federation, keep="all" if federation.exchange is Exchange.GRADIENTS else "none")


def load(dataset: str, table: Mapping[str, Json], valid: float) -> Task:
    """A dataset by name, or a table, with a share of its training rows held out."""
    if dataset:
        return hold_out(read_dataset(dataset), valid, 0)
    words: dict[str, Any] = dict(table)
    return hold_out(data.table(words.pop("path"), **words), valid, 0)


@lru_cache(maxsize=2)
def _load_once(dataset: str, table: str, valid: float) -> Task:
    """A worker does several trainings on the same data: it loads them once."""
    return load(dataset, json.loads(table), valid)


def some_rows(task: Task, count: int, rng: torch.Generator) -> Task:
    """Train on so many rows of all, and test on up to as many others (at least 2,000, if there are)."""
    rows = torch.cat([task.train, task.valid, task.test])
    order = rows[torch.randperm(len(rows), generator=rng)]
    return replace(task, train=order[:count], test=order[count : count + max(count, 2000)], valid=rows[:0])
