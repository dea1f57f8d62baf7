"""Tasks from words: a dataset by name, a user's table, and the task that a run.json describes."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from cutlayer import data
from cutlayer._validate import one_of
from cutlayer.data.task import Task
from cutlayer.errors import ConfigError, RunError
from cutlayer.json_types import Json
from cutlayer.rng import generator
from cutlayer.spec import settings, split_spelling


def read_dataset(spelling: str, **options: object) -> Task:
    """Read NAME or NAME:option=value,option=value; options that are None are left to the dataset."""
    name, rest = split_spelling(spelling)
    one_of("dataset", name, data.names())
    loader = getattr(data, name.replace("-", "_"))
    given = {key: value for key, value in options.items() if value is not None}
    return data.load(name, **given | settings(rest, loader, f"dataset {name}"))


def read_parties(spellings: Sequence[str]) -> dict[str, list[str]]:
    """Read --party NAME=COLUMN,COLUMN options."""
    parties: dict[str, list[str]] = {}
    for spelling in spellings:
        name, equals, columns = spelling.partition("=")
        name = name.strip()
        if not equals or not name or not columns.strip():
            raise ConfigError(f"Expected --party NAME=COLUMN,COLUMN, got {spelling!r}.")
        if name in parties:
            raise ConfigError(f"The party {name!r} is given twice; list all its columns in one --party.")
        parties[name] = [column.strip() for column in columns.split(",")]
    return parties


def hold_out(task: Task, share: float, seed: int) -> Task:
    """Move a share of the training rows to the validation part."""
    if not share:
        return task
    if not 0 < share < 1:
        raise ConfigError(f"Expected --valid {share} to lie between 0 and 1.")
    return replace(task.hold_out(share, generator(seed, "valid")), source={**task.source, "held_out": [share, seed]})


def task_again(source: Mapping[str, Json]) -> Task:
    """Make the task of a run.json again."""
    rest: dict[str, Any] = dict(source)
    share, seed = rest.pop("held_out", (0, 0))
    if "dataset" in rest:
        task = data.load(rest.pop("dataset"), **rest)
    elif "table" in rest:
        task = data.table(rest.pop("table"), **rest)
    else:
        raise RunError("The run was trained on a task made in Python; open it there with cutlayer.Run.open.")
    return hold_out(task, share, seed)
