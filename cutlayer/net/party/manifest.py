"""RunManifest: what all parties agree on before anything is computed. Each has it in its own file; all must be equal.

It says everything that shapes what crosses: who takes part, models, cut, defences, schedule, seed, versions. What a
party requires of the others is its own affair and is checked against the manifest before it dials or listens.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields

from cutlayer._validate import at_least, one_of
from cutlayer.cut import Roster
from cutlayer.data.task import NAME
from cutlayer.errors import ConfigError
from cutlayer.json_types import Json
from cutlayer.net.wire.packet import VERSION
from cutlayer.plan import Facts
from cutlayer.settings import Settings, settings_of
from cutlayer.version import __version__
from cutlayer.words import read_words


@dataclass(frozen=True, kw_only=True)
class RunManifest(Settings):
    """The [run] section of a party's file: how to train, and what else all must agree on."""

    parties: tuple[str, ...]  # all who take part, in the order in which embeddings meet
    label_party: str
    columns_at_label_party: bool = True  # or it holds labels only
    test: float = 0.2  # share of the common rows on which the model is tested
    checkpoint: int = 200  # steps between checkpoints
    ids: str = "text"  # how ids are made alike: text, email or phone
    country: str = ""  # calling code of phone numbers without one
    salt: str = ""  # known to the parties only: with it one can try ids on the tags of a prediction
    dataset: str = ""  # a dataset by name in place of tables, to try things out

    def __post_init__(self) -> None:
        for party in self.parties:
            if not NAME.fullmatch(party):
                raise ConfigError(f"Expected a party's name of up to 32 letters, digits, - or _, got {party!r}.")
        if len(set(self.parties)) != len(self.parties) or len(self.parties) < 2:
            raise ConfigError(f"Expected two or more parties with different names, got {', '.join(self.parties)}.")
        if self.label_party not in self.parties:
            raise ConfigError(f"Expected the label party among the parties, got {self.label_party!r}.")
        if unknown := set(self.bottoms) - set(self.parties):
            raise ConfigError(f"Expected bottoms of parties, got one of {', '.join(sorted(unknown))}.")
        if not 0 < self.test < 1:
            raise ConfigError(f"Expected test={self.test} to lie between 0 and 1.")
        at_least("checkpoint", self.checkpoint, 1)
        if self.patience is not None or self.kinds:
            word = "kinds" if self.kinds else "patience"
            raise ConfigError(f"Expected no {word} in [run]: it is for simulations, with `cutlayer train`.")
        one_of("ids", self.ids, ("text", "email", "phone"))
        self.plan()  # whatever is wrong with models, cut or defences is said now

    @property
    def roster(self) -> Roster:
        """Who takes part, and who holds columns."""
        holders = [p for p in self.parties if p != self.label_party or self.columns_at_label_party]
        return Roster(self.label_party, tuple(holders))

    def facts(self, classes: int) -> Facts:
        """What every party knows."""
        return Facts(self.roster, classes)

    def to_json(self) -> dict[str, Json]:
        """All of it, with every setting written out and the versions of protocol and code."""
        full = {
            **settings_of(self.plan()).to_json(),
            "parties": list(self.parties),
            "bottoms": {party: self.bottoms.get(party, self.bottom) for party in self.parties},
            "salt": hashlib.sha256(self.salt.encode()).hexdigest()[:16],  # equal or not; never the salt itself
        }
        settings = {**asdict(self), **full}
        for simulated in ("bottom", "patience", "kinds"):
            del settings[simulated]
        return {**settings, "protocol": VERSION, "cutlayer": __version__}

    @property
    def digest(self) -> bytes:
        """sha256 of the manifest: names the run in every message."""
        return hashlib.sha256(json.dumps(self.to_json(), sort_keys=True).encode()).digest()


def manifest_of(section: Mapping[str, object]) -> RunManifest:
    """Read a [run] section; a key that is not known is refused, with the nearest that is."""
    for key in section:
        one_of("key in [run]", key, [f.name for f in fields(RunManifest)])
    for key in ("parties", "label_party"):
        if key not in section:
            raise ConfigError(f"Expected {key} in [run], found none; see `cutlayer party --example label`.")
    return read_words(RunManifest, section, lambda key: " in [run]")
