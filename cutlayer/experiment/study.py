"""Study: what is audited, in words: data, models, defences with their strengths, attacks, seeds.

A study is a TOML file and back. Everything that determines a cell's outcome is in it, so cells are cached by a hash.
"""

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from cutlayer._validate import one_of
from cutlayer.data.task import Task
from cutlayer.errors import ConfigError
from cutlayer.experiment.unit import load
from cutlayer.json_types import Json
from cutlayer.plan import Plan
from cutlayer.settings import Settings, read_attacks
from cutlayer.setup import read_setup
from cutlayer.words import check_words

TABLE = (
    *("path", "label", "parties", "label_party", "id_column", "without", "goal"),
    *("coding", "scaling", "missing", "test", "seed"),
)


#: Training settings that a study expresses differently (its setups hold the defences, and it has several seeds), or
#: refuses (`lookahead`).
ELSEWHERE = ("defences", "seed", "lookahead")


@dataclass(frozen=True, kw_only=True)
class Study:
    """What is audited; all words are the command line's."""

    data: str = ""  # a dataset by name, or
    table: Mapping[str, Json] = field(default_factory=dict)  # a table: path, label, parties, ...
    valid: float = 0.0  # share of the training rows that is held out for early stopping
    defences: tuple[str, ...] = ("none",)  # setups: defences, and perhaps a cut, joined by +
    attacks: tuple[str, ...] = ()
    seeds: tuple[int, ...] = (0,)
    training: Settings = field(default_factory=Settings)

    def __post_init__(self) -> None:
        if bool(self.data) == bool(self.table):
            raise ConfigError("Expected either a dataset or a table to audit.")
        if not self.defences or not self.attacks or not self.seeds:
            raise ConfigError("Expected at least one defence (or none), one attack and one seed.")
        for key in ("defences", "attacks", "seeds"):
            given = getattr(self, key)
            if len(set(given)) != len(given):
                raise ConfigError(f"Expected every one of the {key} once, got a repeat.")
        if self.training.lookahead:
            raise ConfigError("Expected no lookahead in a study: parties of one process have nobody to wait for.")
        for key in self.table:
            one_of("key in [table]", key, TABLE)
        read_attacks(self.attacks)
        for setup in self.defences:
            self.plan(setup, 0)

    def task(self) -> Task:
        """Load what is audited."""
        return load(self.data, self.table, self.valid)

    def plan(self, setup: str, seed: int) -> Plan:
        """The plan of a setup: of its parts a cut replaces the study's, all others are defences in order."""
        return replace(self.training.under(read_setup(setup)), seed=seed).plan()

    def to_json(self) -> dict[str, Json]:
        """As JSON values: one flat table of words, which `study_again` reads."""
        training = {key: value for key, value in self.training.to_json().items() if key not in ELSEWHERE}
        own = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "training"}
        return {**own, **training, "table": dict(self.table)}

    def to_toml(self, folder: Path) -> str:
        """As a file in a folder, which `cutlayer audit` reads; a table's path is relative to it."""
        flat = {key: value for key, value in self.to_json().items() if key != "table"}
        lines = [f"{key} = {_toml(value)}" for key, value in flat.items() if value not in ("", None, {})]
        for key, value in self.table.items():
            lines += ["", "[table]"] if "[table]" not in lines else []
            if key == "path":
                value = os.path.relpath(Path(str(value)).resolve(), folder.resolve())
            if value is not None:
                lines.append(f"{key} = {_toml(value)}")
        return "\n".join(lines) + "\n"


def read_study(path: Path) -> Study:
    """Read a study file; what is wrong with it is said with its key and line."""
    try:
        text = path.read_text()
        words = tomllib.loads(text)
    except FileNotFoundError as error:
        raise ConfigError(f"Expected a study file at {path}, found none.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"Expected TOML in {path}, got something else: {error}.") from error

    def where(key: str) -> str:
        return f" (line {_line(text, key)} of {path})"

    known = [f.name for f in fields(Study) if f.name != "training"]
    known += [f.name for f in fields(Settings) if f.name not in ELSEWHERE]
    for key in words:
        try:
            one_of("key", key, known)
        except ConfigError as error:
            raise ConfigError(f"{error}{where(key)}") from error
    for cls in (Study, Settings):
        names = {f.name for f in fields(cls)} - ({"defences"} if cls is Settings else set())
        check_words(cls, {key: value for key, value in words.items() if key in names}, where)
    if "path" in words.get("table", {}):
        words["table"]["path"] = str(path.parent / words["table"]["path"])
    return study_again(words)


def study_again(words: Mapping[str, object]) -> Study:
    """A study from JSON values."""
    given: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in words.items()}
    own = {f.name for f in fields(Study)}
    training = Settings(**{key: value for key, value in given.items() if key not in own})
    return Study(**{key: value for key, value in given.items() if key in own}, training=training)


def _line(text: str, key: str) -> int:
    """The line that a top-level key or section stands in."""
    spot = re.search(rf"^\s*(\[\s*)?[\"']?{re.escape(key)}[\"']?\s*[\].=]", text, re.MULTILINE)
    return text.count("\n", 0, spot.end()) + 1 if spot else 1


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_toml(str(key))} = {_toml(item)}" for key, item in value.items()) + "}"
    return str(value)
