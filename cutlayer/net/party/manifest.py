"""Manifest: what all parties agree on before anything is computed. Each writes it in its own file; all must be equal.

It says everything that shapes what crosses: who takes part, models, cut, defences, schedule, seed, versions. What a
party requires of the others is its own affair and is checked against the manifest before it dials or listens.
"""

import hashlib
import json
import operator
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from cutlayer._validate import at_least, one_of
from cutlayer.cut import Roster
from cutlayer.data.task import NAME
from cutlayer.errors import ConfigError
from cutlayer.experiment import words
from cutlayer.models import named
from cutlayer.net.wire.packet import VERSION
from cutlayer.plan import Facts, Plan
from cutlayer.recipe import Optimiser, Recipe
from cutlayer.spec import describe
from cutlayer.version import __version__

COMPARE = {"<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt, "=": operator.eq}
RULE = re.compile(r"(?P<what>[a-z0-9-]+)(\.(?P<setting>[a-z_]+))?(\s*(?P<sign><=|>=|<|>|=)\s*(?P<value>\S+))?")


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """The [run] section of a party's file. Spellings are the command line's."""

    parties: tuple[str, ...]  # all who take part, in the order in which embeddings meet
    label_party: str
    columns_at_label_party: bool = True  # or it holds labels only
    bottom: str = "default"
    bottoms: Mapping[str, str] = field(default_factory=dict)  # where a party's differs
    top: str = "default"
    width: int = 16
    cut: str = "concat"
    defences: tuple[str, ...] = ()
    epochs: int = 30
    batch_size: int = 128
    lr: float = 2e-3
    optimiser: str = "adam"
    momentum: float = 0.9
    weight_decay: float = 0.0
    schedule: str = "constant"
    seed: int = 0
    test: float = 0.2  # share of the common rows on which the model is tested
    checkpoint: int = 200  # steps between checkpoints
    lookahead: int = 0  # batches that a feature party may be ahead of its gradients
    ids: str = "text"  # how ids are spelt alike: text, email or phone
    country: str = ""  # calling code of phone numbers without one
    salt: str = ""  # known to the parties only: whoever has it can try ids on the tags of a prediction
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
        at_least("lookahead", self.lookahead, 0)
        one_of("ids", self.ids, ("text", "email", "phone"))
        self.plan(None, "")  # whatever is wrong with models, cut or defences is said now

    @property
    def roster(self) -> Roster:
        """Who takes part, and who holds columns."""
        holders = [p for p in self.parties if p != self.label_party or self.columns_at_label_party]
        return Roster(self.label_party, tuple(holders))

    def facts(self, classes: int) -> Facts:
        """What every party knows."""
        return Facts(self.roster, classes)

    def plan(self, private_seed: int | None, party: str, device: str = "cpu") -> Plan:
        """The plan of one party."""
        return Plan(
            bottoms=named.bottom(self.bottoms.get(party, self.bottom)),
            top=named.top(self.top),
            width=self.width,
            cut=words.cut(self.cut),
            defences=words.defences(self.defences),
            recipe=Recipe(
                epochs=self.epochs,
                batch_size=self.batch_size,
                lr=self.lr,
                optimiser=_optimiser(self.optimiser),
                momentum=self.momentum,
                weight_decay=self.weight_decay,
                schedule=words.schedule(self.schedule),
            ),
            seed=self.seed,
            private_seed=private_seed,
            device=device,
            lookahead=self.lookahead,
        )

    def to_json(self) -> dict[str, Any]:
        """All of it, with every setting spelt out and the versions of protocol and code."""
        plan = self.plan(None, "")
        full = {
            "cut": describe(plan.cut, full=True),
            "defences": [describe(defence, full=True) for defence in plan.defences],
            "schedule": describe(plan.recipe.schedule, full=True),
            "parties": list(self.parties),
            "bottoms": {party: self.bottoms.get(party, self.bottom) for party in self.parties},
            "salt": hashlib.sha256(self.salt.encode()).hexdigest()[:16],  # equal or not; never the salt itself
        }
        settings = asdict(self)
        del settings["bottom"]
        return {**settings, **full, "protocol": VERSION, "cutlayer": __version__}

    @property
    def digest(self) -> bytes:
        """sha256 of the manifest: names the run in every message."""
        return hashlib.sha256(json.dumps(self.to_json(), sort_keys=True).encode()).digest()


def manifest_of(section: Mapping[str, Any]) -> Manifest:
    """Read a [run] section; a key that is not known is refused, with the nearest that is."""
    known = {one.name: one for one in fields(Manifest)}
    for key, value in section.items():
        one_of("key in [run]", key, known)
        _check_type(key, value, known[key].type)
    for key in ("parties", "label_party"):
        if key not in section:
            raise ConfigError(f"Expected {key} in [run], found none; see `cutlayer party --example`.")
    lists = {key: tuple(value) for key, value in section.items() if isinstance(value, list)}
    return Manifest(**{**section, **lists})


def require(rules: Sequence[str], manifest: Manifest) -> None:
    """Check what this party requires of all: `max-norm`, `hash.bits <= 16`, `cut = secure-sum`, `epochs <= 50`."""
    for rule in rules:
        if not _holds(rule, manifest):
            raise ConfigError(
                f"This party requires {rule!r}, and the manifest does not say so: change [run] in agreement with the "
                "others, or [require]."
            )


def _holds(rule: str, manifest: Manifest) -> bool:
    found = RULE.fullmatch(rule.strip())
    if not found or (found["setting"] and not found["sign"]):
        raise ConfigError(f"Expected a rule such as 'max-norm', 'hash.bits <= 16' or 'cut = secure-sum', got {rule!r}.")
    what, setting, sign, value = found["what"], found["setting"], found["sign"], found["value"]
    facts = manifest.to_json()
    if setting is None and sign is None:
        return any(_name(spelling) == what for spelling in facts["defences"])
    if setting is None:
        key = what.replace("-", "_")
        one_of("setting of [run] in a rule", key, facts)
        return _compare(sign, _name(facts[key]) if key == "cut" else facts[key], value, rule)
    chosen = [s for s in (facts["cut"], *facts["defences"]) if _name(s) == what]
    settings = [dict(part.split("=", 1) for part in s.partition(":")[2].split(",") if part) for s in chosen]
    if any(setting not in one for one in settings):
        raise ConfigError(f"Expected a setting of {what} in the rule {rule!r}, got {setting!r}.")
    return bool(settings) and all(_compare(sign, one[setting], value, rule) for one in settings)


def _compare(sign: str, one: Any, other: str, rule: str) -> bool:
    try:
        return bool(COMPARE[sign](float(one), float(other)))
    except (TypeError, ValueError):
        if sign != "=":
            raise ConfigError(f"Expected numbers to compare in the rule {rule!r}.") from None
        return str(one) == other


def _name(spelling: str) -> str:
    return spelling.partition(":")[0]


def _optimiser(word: str) -> Optimiser:
    one_of("optimiser", word, [optimiser.value for optimiser in Optimiser])
    return Optimiser(word)


def _check_type(key: str, value: object, hint: Any) -> None:
    kinds: dict[Any, tuple[type, ...]] = {int: (int,), float: (float, int), str: (str,), bool: (bool,)}
    wanted = kinds.get(hint, (dict,) if key == "bottoms" else (list,))
    right = isinstance(value, wanted) and (isinstance(value, bool) == (hint is bool))
    if isinstance(value, list | dict) and right:
        inside = value.values() if isinstance(value, dict) else value
        right = all(isinstance(one, str) for one in inside)
    if not right:
        raise ConfigError(f"Expected {key} in [run] to be {_kind(wanted[0])}, got {value!r}.")


def _kind(kind: type) -> str:
    names = {int: "a whole number", float: "a number", str: "a text", bool: "true or false", list: "a list of texts"}
    return names.get(kind, "a table of texts")
