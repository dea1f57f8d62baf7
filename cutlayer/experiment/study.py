"""Study: what is audited, in words: data, models, defences with their strengths, attacks, seeds.

A study is a TOML file and back. Everything that determines a cell's outcome is in it, so cells are cached by a hash.
"""

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import cutlayer.cuts
from cutlayer import data
from cutlayer._validate import at_least, one_of
from cutlayer.cut import Cut
from cutlayer.data.task import Task
from cutlayer.errors import ConfigError
from cutlayer.experiment import words
from cutlayer.models import named
from cutlayer.plan import Plan
from cutlayer.recipe import Optimiser, Recipe
from cutlayer.spec import find

TABLE = (
    *("path", "label", "parties", "label_party", "id_column", "without", "goal"),
    *("coding", "scaling", "missing", "test", "seed"),
)


@dataclass(frozen=True, kw_only=True)
class Study:
    """All words are the command line's."""

    data: str = ""  # a dataset by name, or
    table: Mapping[str, Any] = field(default_factory=dict)  # a table: path, label, parties, ...
    defences: tuple[str, ...] = ("none",)  # setups: defences, and perhaps a cut, joined by +
    attacks: tuple[str, ...] = ()
    seeds: tuple[int, ...] = (0,)
    bottom: str = "default"
    top: str = "default"
    width: int = 16
    cut: str = "concat"
    epochs: int = 30
    batch_size: int = 128
    optimiser: str = "adam"
    lr: float = 2e-3

    def __post_init__(self) -> None:
        if bool(self.data) == bool(self.table):
            raise ConfigError("Expected either a dataset or a table to audit.")
        if not self.defences or not self.attacks or not self.seeds:
            raise ConfigError("Expected at least one defence (or none), one attack and one seed.")
        for key in ("defences", "attacks", "seeds"):
            given = getattr(self, key)
            if len(set(given)) != len(given):
                raise ConfigError(f"Expected every one of the {key} once, got a repeat.")
        at_least("epochs", self.epochs, 1)
        for key in self.table:
            one_of("key in [table]", key, TABLE)
        words.attacks(self.attacks)
        for setup in self.defences:
            self.plan(setup, 0)

    def task(self) -> Task:
        """Load what is audited."""
        if self.data:
            return words.dataset(self.data)
        given = dict(self.table)
        return data.table(given.pop("path"), **given)

    def plan(self, setup: str, seed: int) -> Plan:
        """The plan of a setup: of its parts a cut replaces the study's, all others are defences in order."""
        cuts = find(cutlayer.cuts, Cut)
        parts = setup.split("+")
        chosen = [part for part in parts if part.partition(":")[0] in cuts]
        if len(chosen) > 1:
            raise ConfigError(f"Expected one cut in {setup!r}, got {', '.join(chosen)}.")
        one_of("optimiser", self.optimiser, [optimiser.value for optimiser in Optimiser])
        return Plan(
            bottoms=named.bottom(self.bottom),
            top=named.top(self.top),
            width=self.width,
            cut=words.cut(chosen[0] if chosen else self.cut),
            defences=words.defences([part for part in parts if part not in chosen]),
            recipe=Recipe(
                epochs=self.epochs, batch_size=self.batch_size, optimiser=Optimiser(self.optimiser), lr=self.lr
            ),
            seed=seed,
        )

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {**asdict(self), "table": dict(self.table)}

    def to_toml(self, folder: Path) -> str:
        """As a file in a folder, which `cutlayer audit` reads; a table's path is relative to it."""
        lines = [f"{key} = {_toml(value)}" for key, value in self.to_json().items() if key != "table" and value != ""]
        for key, value in self.table.items():
            lines += ["", "[table]"] if "[table]" not in lines else []
            if key == "path":
                value = os.path.relpath(Path(value).resolve(), folder.resolve())
            if value is not None:
                lines.append(f"{key} = {_toml(value)}")
        return "\n".join(lines) + "\n"


def read_study(path: Path) -> Study:
    """Read a study file; what is wrong with it is said with its key and line."""
    try:
        text = path.read_text()
        found = tomllib.loads(text)
    except FileNotFoundError as error:
        raise ConfigError(f"Expected a study file at {path}, found none.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"Expected TOML in {path}, got something else: {error}.") from error
    known = {one.name: one.type for one in fields(Study)}
    kinds: dict[Any, tuple[type, ...]] = {str: (str,), int: (int,), float: (int, float)}
    for key, value in found.items():
        where = f"line {_line(text, key)} of {path}"
        try:
            one_of("key", key, known)
        except ConfigError as error:
            raise ConfigError(f"{error} ({where})") from error
        wanted = kinds.get(known[key], (dict,) if key == "table" else (list,))
        inside: type = int if key == "seeds" else str
        right = isinstance(value, wanted) and not isinstance(value, bool)
        right = right and (not isinstance(value, list) or all(type(one) is inside for one in value))
        if not right:
            raise ConfigError(f"Expected another type of value for {key}, got {value!r} ({where}).")
    if "path" in found.get("table", {}):
        found["table"]["path"] = str(path.parent / found["table"]["path"])
    return study_again(found)


def study_again(found: Mapping[str, Any]) -> Study:
    """A study from JSON values."""
    given: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in found.items()}
    return Study(**given)


def _line(text: str, key: str) -> int:
    """The line that a top-level key or section stands in."""
    spot = re.search(rf"^\s*(\[\s*)?[\"']?{re.escape(key)}[\"']?\s*[\].=]", text, re.MULTILINE)
    return text.count("\n", 0, spot.end()) + 1 if spot else 1


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_toml(str(key))} = {_toml(one)}" for key, one in value.items()) + "}"
    return str(value)
