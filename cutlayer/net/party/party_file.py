"""A party's file, in TOML: who it is, what it holds, what all agreed on, and what it requires of the others."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

from cutlayer._validate import one_of, positive
from cutlayer.align.curve import SALT_BYTES
from cutlayer.errors import ConfigError
from cutlayer.net.party.manifest import RunManifest, manifest_of
from cutlayer.net.party.requirements import require


@dataclass(frozen=True, kw_only=True)
class PartySection:
    """[party]: who this is, and where. Paths are relative to the file."""

    name: str
    listen: str = ""  # the label party's address and port
    connect: str = ""  # where feature parties dial
    keys: str = ""  # folder of `cutlayer keys`
    folder: str = ""  # checkpoints, ledger, models; made if it is not there
    wait: float = 600.0  # seconds for a missing party
    seed: int | None = None  # of this party's own draws, to repeat a rehearsal; else from the operating system


@dataclass(frozen=True, kw_only=True)
class DataSection:
    """[data]: this party's table."""

    table: str = ""
    id: str = ""
    label: str = ""  # at the label party
    columns: tuple[str, ...] = ()  # all but id and label if left out
    coding: str = "onehot"
    scaling: str = "standard"
    missing: str = "impute"
    repeated: str = "refuse"  # ids that stand in several rows: refuse, or first


@dataclass(frozen=True, kw_only=True)
class ServeSection:
    """[serve]: joint prediction after training."""

    http: str = ""  # the label party's address for online prediction
    table: str = ""  # fresh rows; the training table if left out


Section = TypeVar("Section", PartySection, DataSection, ServeSection)


@dataclass(frozen=True)
class PartyFile:
    """All of a party's file."""

    path: Path
    party: PartySection
    data: DataSection
    run: RunManifest
    requires: tuple[str, ...] = ()
    serve: ServeSection = ServeSection()

    @property
    def is_label_party(self) -> bool:
        """Whether this party holds the labels."""
        return self.party.name == self.run.label_party

    def at(self, path: str) -> Path:
        """A path of the file, relative to it."""
        return self.path.parent / path

    @property
    def folder(self) -> Path:
        """Where this party keeps its results."""
        return self.at(self.party.folder or f"{self.party.name}-run")


def read_file(path: Path) -> PartyFile:
    """Read and check a party's file."""
    try:
        content = tomllib.loads(path.read_text())
    except FileNotFoundError as error:
        raise ConfigError(
            f"Expected a party's file at {path}, found none; see `cutlayer party --example label`."
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"Expected TOML in {path}, got something else: {error}.") from error
    for section, values in content.items():
        one_of(f"section in {path.name}", section, ("party", "data", "run", "require", "serve"))
        if not isinstance(values, dict):
            raise ConfigError(f"Expected a section [{section}] in {path}, got {values!r}.")
    for section in ("party", "run"):
        if section not in content:
            raise ConfigError(f"Expected a section [{section}] in {path}, found none.")
    rules = content.get("require", {}).get("rules", [])
    if set(content.get("require", {})) - {"rules"} or not _texts(rules):
        raise ConfigError(f"Expected `rules`, a list of texts, in [require] of {path}.")
    file = PartyFile(
        path,
        _section(PartySection, content["party"], "party"),
        _section(DataSection, content.get("data", {}), "data"),
        manifest_of(content["run"]),
        tuple(rules),
        _section(ServeSection, content.get("serve", {}), "serve"),
    )
    _check(file)
    require(file.requires, file.run)
    return file


def _section(kind: type[Section], values: Mapping[str, Any], name: str) -> Section:
    known = [field.name for field in fields(kind)]
    for key, value in values.items():
        one_of(f"key in [{name}]", key, known)
        expected = {"wait": (int, float), "seed": (int,), "columns": (list,)}.get(key, (str,))
        if not isinstance(value, expected) or isinstance(value, bool) or (expected == (list,) and not _texts(value)):
            raise ConfigError(f"Expected another value for {key} in [{name}], got {value!r}.")
    if name == "party" and "name" not in values:
        raise ConfigError("Expected a name in [party], found none.")
    arguments: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in values.items()
    }
    return kind(**arguments)


def _texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(entry, str) for entry in value)


def _check(file: PartyFile) -> None:
    party, data, run = file.party, file.data, file.run
    one_of("party", party.name, run.parties)
    positive("wait", party.wait)
    one_of("coding", data.coding, ("onehot", "integer"))
    one_of("scaling", data.scaling, ("standard", "minmax", "none"))
    one_of("missing", data.missing, ("impute", "refuse"))
    one_of("repeated", data.repeated, ("refuse", "first"))
    _check_address(file)
    if run.dataset and data.table:
        raise ConfigError(f"Expected a dataset in [run] or a table in [data] of {file.path}, got both.")
    if not run.dataset:
        _check_table(file)


def _check_address(file: PartyFile) -> None:
    party = file.party
    if file.is_label_party:
        role, key, other, address, excess = "the label party", "listen", "connect", party.listen, party.connect
    else:
        role, key, other, address, excess = "a feature party", "connect", "listen", party.connect, party.listen
    if not address or excess:
        raise ConfigError(f'Expected `{key} = "HOST:PORT"` and no `{other}` in [party] of {role}, {file.path}.')
    if ":" not in address:
        raise ConfigError(f"Expected {key} in [party] as HOST:PORT, got {address!r}.")


def _check_table(file: PartyFile) -> None:
    data, run = file.data, file.run
    for key in ("table", "id"):
        if not getattr(data, key):
            raise ConfigError(f"Expected `{key}` in [data] of {file.path}, found none.")
    least, most = SALT_BYTES
    if not least <= (count := len(run.salt.encode())) <= most:
        raise ConfigError(
            f"Expected `salt` in [run] of {file.path} with {least} to {most} bytes, got {count}: agree on a long "
            "random text with the other parties, and show it to nobody else."
        )
    if bool(data.label) != file.is_label_party:
        raise ConfigError(f"Expected a `label` in [data] of the label party {run.label_party!r}, and of no other.")
