"""A party's file, in TOML: who it is, what it holds, what all agreed on, and what it requires of the others."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from cutlayer._validate import one_of, positive
from cutlayer.align.curve import SALT_BYTES
from cutlayer.errors import ConfigError
from cutlayer.net.party.manifest import Manifest, manifest_of, require


@dataclass(frozen=True, kw_only=True)
class Party:
    """[party]: who this is, and where. Paths are relative to the file."""

    name: str
    listen: str = ""  # the label party's address and port
    connect: str = ""  # where feature parties dial
    keys: str = ""  # folder of `cutlayer keys`
    folder: str = ""  # checkpoints, ledger, models; made if it is not there
    wait: float = 600.0  # seconds for a missing party
    seed: int | None = None  # of this party's own draws, to repeat a rehearsal; else from the operating system


@dataclass(frozen=True, kw_only=True)
class Data:
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
class Serve:
    """[serve]: joint prediction after training."""

    http: str = ""  # the label party's address for online prediction
    table: str = ""  # fresh rows; the training table if left out


@dataclass(frozen=True)
class PartyFile:
    """All of a party's file."""

    path: Path
    party: Party
    data: Data
    run: Manifest
    requires: tuple[str, ...] = ()
    serve: Serve = Serve()

    @property
    def is_label_party(self) -> bool:
        """Whether this party holds the labels."""
        return self.party.name == self.run.label_party

    def at(self, path: str) -> Path:
        """A path of the file, relative to it."""
        return self.path.parent / path

    @property
    def folder(self) -> Path:
        """Where this party keeps what it makes."""
        return self.at(self.party.folder or f"{self.party.name}-run")


def read_file(path: Path) -> PartyFile:
    """Read and check a party's file."""
    try:
        found = tomllib.loads(path.read_text())
    except FileNotFoundError as error:
        raise ConfigError(f"Expected a party's file at {path}, found none; see `cutlayer party --example`.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"Expected TOML in {path}, got something else: {error}.") from error
    for section, values in found.items():
        one_of(f"section in {path.name}", section, ("party", "data", "run", "require", "serve"))
        if not isinstance(values, dict):
            raise ConfigError(f"Expected a section [{section}] in {path}, got {values!r}.")
    for section in ("party", "run"):
        if section not in found:
            raise ConfigError(f"Expected a section [{section}] in {path}, found none.")
    rules = found.get("require", {}).get("rules", [])
    if set(found.get("require", {})) - {"rules"} or not _texts(rules):
        raise ConfigError(f"Expected `rules`, a list of texts, in [require] of {path}.")
    made = PartyFile(
        path,
        _section(Party, found["party"], "party"),
        _section(Data, found.get("data", {}), "data"),
        manifest_of(found["run"]),
        tuple(rules),
        _section(Serve, found.get("serve", {}), "serve"),
    )
    _check(made)
    require(made.requires, made.run)
    return made


def _section(kind: Any, values: Mapping[str, Any], name: str) -> Any:
    known = {one.name: one for one in fields(kind)}
    for key, value in values.items():
        one_of(f"key in [{name}]", key, known)
        wanted = {"wait": (int, float), "seed": (int,), "columns": (list,)}.get(key, (str,))
        if not isinstance(value, wanted) or isinstance(value, bool) or (wanted == (list,) and not _texts(value)):
            raise ConfigError(f"Expected another value for {key} in [{name}], got {value!r}.")
    if name == "party" and "name" not in values:
        raise ConfigError("Expected a name in [party], found none.")
    return kind(**{key: tuple(value) if isinstance(value, list) else value for key, value in values.items()})


def _texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def _check(file: PartyFile) -> None:
    party, data, run = file.party, file.data, file.run
    one_of("party", party.name, run.parties)
    positive("wait", party.wait)
    one_of("coding", data.coding, ("onehot", "integer"))
    one_of("scaling", data.scaling, ("standard", "minmax", "none"))
    one_of("missing", data.missing, ("impute", "refuse"))
    one_of("repeated", data.repeated, ("refuse", "first"))
    end, other = ("listen", "connect") if file.is_label_party else ("connect", "listen")
    if not getattr(party, end) or getattr(party, other):
        who = "the label party" if file.is_label_party else "a feature party"
        raise ConfigError(f'Expected `{end} = "HOST:PORT"` and no `{other}` in [party] of {who}, {file.path}.')
    if ":" not in getattr(party, end):
        raise ConfigError(f"Expected {end} in [party] as HOST:PORT, got {getattr(party, end)!r}.")
    if run.dataset:
        if data.table:
            raise ConfigError(f"Expected a dataset in [run] or a table in [data] of {file.path}, got both.")
        return
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


LABEL_EXAMPLE = """\
# bank.toml: the label party. It listens; feature parties dial in.
[party]
name = "bank"
listen = "0.0.0.0:7400"
keys = "bank-keys"           # made by `cutlayer keys request` and `install`
folder = "bank-run"          # checkpoints, ledger, models
wait = 600                   # seconds to wait for a missing party
# seed = 1                   # rehearsals only, to repeat them; in earnest leave it out, or its draws can be guessed

[data]
table = "bank.csv"           # CSV or Parquet
id = "customer"
label = "default"
columns = ["age", "income"]  # leave out to use all columns

{run}
[require]                    # what this party insists on, whatever [run] says
rules = ["epochs <= 50"]

[serve]
http = "127.0.0.1:8400"      # online prediction: `cutlayer predict bank.toml --serve`
"""
FEATURE_EXAMPLE = """\
# shop.toml: a feature party. It dials the label party and opens no port.
[party]
name = "shop"
connect = "bank.example.com:7400"
keys = "shop-keys"
folder = "shop-run"
# seed = 2                   # rehearsals only, to repeat them; in earnest leave it out, or its draws can be guessed

[data]
table = "shop.csv"
id = "customer"

{run}
[require]
rules = ["max-norm"]         # no gradients that tell labels by their length
"""
RUN_EXAMPLE = """\
[run]                        # the same in every party's file, or nothing starts
parties = ["bank", "shop"]
label_party = "bank"
salt = "choose-a-long-random-text"  # 16 to 64 bytes, known to the parties only
epochs = 30
batch_size = 128
lr = 0.002
cut = "concat"
defences = ["max-norm"]
seed = 0
"""


def example(role: str) -> str:
    """A file to start from."""
    one_of("role", role, ("label", "feature"))
    return (LABEL_EXAMPLE if role == "label" else FEATURE_EXAMPLE).format(run=RUN_EXAMPLE)
