"""From words to objects: the task, the plan and the plug-ins that options (or a run.json) describe."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import cutlayer.attacks
import cutlayer.cuts
import cutlayer.defences
import cutlayer.recipe
from cutlayer import data
from cutlayer._validate import one_of
from cutlayer.attack import Attack
from cutlayer.cut import Cut
from cutlayer.data.task import Task
from cutlayer.defence import Defence
from cutlayer.errors import ConfigError, RunError
from cutlayer.models import named
from cutlayer.plan import Plan
from cutlayer.recipe import Constant, Optimiser, Recipe
from cutlayer.rng import generator
from cutlayer.spec import find, kebab, parse, settings


def defences(spellings: Sequence[str]) -> tuple[Defence, ...]:
    """Read --defence options: in order, several in one joined by +; `none` adds nothing."""
    each = [part for spelling in spellings for part in spelling.split("+")]
    return tuple(parse(part, cutlayer.defences, Defence, "defence") for part in each if part != "none")


def attacks(spellings: Sequence[str]) -> list[Attack]:
    """Read --attack options; without any, every attack with its defaults."""
    if not spellings:
        return [cls() for cls in find(cutlayer.attacks, Attack).values()]
    return [parse(s, cutlayer.attacks, Attack, "attack") for s in spellings]


def cut(spelling: str) -> Cut:
    """Read --cut."""
    return parse(spelling, cutlayer.cuts, Cut, "cut")


def schedule(spelling: str) -> Constant:
    """Read --schedule."""
    if spelling == kebab(Constant.__name__):
        return Constant()
    return parse(spelling, cutlayer.recipe, Constant, "schedule")


def parties(spellings: Sequence[str]) -> dict[str, list[str]]:
    """Read --party name=column,column options."""
    found: dict[str, list[str]] = {}
    for spelling in spellings:
        name, equals, columns = spelling.partition("=")
        if not equals or not name.strip() or not columns.strip():
            raise ConfigError(f"Expected --party NAME=COLUMN,COLUMN, got {spelling!r}.")
        if name.strip() in found:
            raise ConfigError(f"The party {name.strip()!r} is given twice; list all its columns in one --party.")
        found[name.strip()] = [column.strip() for column in columns.split(",")]
    return found


def dataset(spelling: str, **options: Any) -> Task:
    """Read --data NAME or NAME:option=value,option=value; options that are None are left to the dataset."""
    name, _, rest = spelling.partition(":")
    one_of("dataset", name, data.names())
    loader = getattr(data, name.replace("-", "_"))
    given = {key: value for key, value in options.items() if value is not None}
    return data.load(name, **given | settings(rest, loader, f"dataset {name}"))


def held_out(task: Task, share: float, seed: int) -> Task:
    """Move a share of the training rows to the validation part."""
    if not share:
        return task
    if not 0 < share < 1:
        raise ConfigError(f"Expected --valid {share} to lie between 0 and 1.")
    return replace(task.hold_out(share, generator(seed, "valid")), source={**task.source, "held_out": [share, seed]})


def task_again(source: Mapping[str, Any]) -> Task:
    """Make the task of a run.json again."""
    rest = dict(source)
    share, seed = rest.pop("held_out", (0, 0))
    if "dataset" in rest:
        task = data.load(rest.pop("dataset"), **rest)
    elif "table" in rest:
        task = data.table(rest.pop("table"), **rest)
    else:
        raise RunError("The run was trained on a task made in Python; open it there with cutlayer.Run.open.")
    return held_out(task, share, seed)


def plan_again(record: Mapping[str, Any], trust: bool) -> Plan:
    """Make the plan of a run.json again. Code that it names is imported only if the user trusts it."""
    try:
        return _plan(record, trust)
    except (KeyError, TypeError, ValueError) as error:
        raise RunError(f"Could not read the plan in run.json ({error!r}); it is damaged.") from error


def _plan(record: Mapping[str, Any], trust: bool) -> Plan:
    named_there = [record["cut"], record["bottoms"], record["top"], *record["defences"]]
    foreign = [spelling for spelling in named_there if "." in spelling.partition(":")[0]]
    if foreign and not trust:
        raise RunError(f"The run names code outside cutlayer ({', '.join(foreign)}); if it is yours, pass --trust.")
    if "custom" in (record["bottoms"], record["top"]):
        raise RunError("The run was trained with modules of your own; open it in Python with cutlayer.Run.open.")
    recipe = dict(record["recipe"])
    return Plan(
        bottoms=named.bottom(record["bottoms"]),
        top=named.top(record["top"]),
        width=record["width"],
        cut=cut(record["cut"]),
        defences=defences(record["defences"]),
        recipe=Recipe(
            **recipe | {"optimiser": Optimiser(recipe["optimiser"]), "schedule": schedule(recipe["schedule"])}
        ),
        seed=record["seed"],
        device="cpu",
        lookahead=record.get("lookahead", 0),
        greedy=record.get("greedy", ""),
    )
