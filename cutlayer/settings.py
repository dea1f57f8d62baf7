"""Settings: how to train, in words. The one way from words to a Plan.

The command line, a study, a party's file, a paper's tables and a run.json all hold the same words and read them here,
so that models, cut, defences and recipe mean the same in all of them. Not every word makes sense everywhere: a deployed
party refuses `patience` and `kinds`, `lookahead` is for a network, and horizontal learning, outside papers, takes a
Plan in Python.
"""

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path

import cutlayer.attacks
import cutlayer.cuts
import cutlayer.defences
import cutlayer.parties
import cutlayer.recipe
from cutlayer._validate import one_of
from cutlayer.attack import Attack
from cutlayer.cut import Cut
from cutlayer.defence import Defence
from cutlayer.errors import ConfigError, RunError
from cutlayer.json_types import Json
from cutlayer.models import named
from cutlayer.models.defaults import default_bottom, default_top
from cutlayer.party import FeatureParty
from cutlayer.plan import Bottoms, Plan, Top
from cutlayer.recipe import Constant, Optimiser, Recipe
from cutlayer.setup import NONE, Setup, read_setup
from cutlayer.spec import class_named, describe, find, kebab, name_in, name_of, parse, spell
from cutlayer.words import check_words, read_words

CUSTOM = "custom"  # stands for a module that was made in Python, and has no spelling


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What is trained and how, spelled as on the command line."""

    bottom: str = "default"
    bottoms: Mapping[str, str] = field(default_factory=dict)  # by party, where one differs from `bottom`
    top: str = "default"
    width: int = 16
    cut: str = "concat"
    defences: tuple[str, ...] = ()
    epochs: int = 30
    batch_size: int = 128
    optimiser: str = "adam"
    lr: float = 2e-3
    momentum: float = 0.9
    weight_decay: float = 0.0
    schedule: str = "constant"
    patience: int | None = None
    clip: float | None = None
    kinds: Mapping[str, str] = field(default_factory=dict)  # classes of feature parties that are not honest
    lookahead: int = 0
    seed: int = 0

    def plan(self, *, private_seed: int | None = None, device: str = "cpu") -> Plan:
        """Read every word; one that cannot be read is named in the error."""
        one_of("optimiser", self.optimiser, [optimiser.value for optimiser in Optimiser])
        return Plan(
            bottoms=self._bottoms(),
            top=named.top(self.top),
            width=self.width,
            cut=read_cut(self.cut),
            defences=read_defences(self.defences),
            recipe=Recipe(
                epochs=self.epochs,
                batch_size=self.batch_size,
                optimiser=Optimiser(self.optimiser),
                lr=self.lr,
                momentum=self.momentum,
                weight_decay=self.weight_decay,
                schedule=read_schedule(self.schedule),
                patience=self.patience,
                clip=self.clip,
            ),
            seed=self.seed,
            private_seed=private_seed,
            device=device,
            lookahead=self.lookahead,
            parties={party: read_kind(kind) for party, kind in self.kinds.items()},
        )

    def under(self, setup: Setup) -> "Settings":
        """The same training under a setup, such as `hash:bits=8+max-norm` or `secure-sum+column-noise`.

        A cut among its parts replaces the cut; all other parts are the defences, in order.
        """
        cuts = find(cutlayer.cuts, Cut)
        chosen = [spell(*part) for part in setup.parts if part[0] in cuts]
        if len(chosen) > 1:
            raise ConfigError(f"Expected one cut in {setup.spelling!r}, got {', '.join(chosen)}.")
        defences = tuple(spell(*part) for part in setup.parts if part[0] not in cuts)
        return replace(self, cut=chosen[0] if chosen else self.cut, defences=defences)

    def to_json(self) -> dict[str, Json]:
        """As JSON values, which `Settings.of_json` reads."""
        return {
            **asdict(self),
            "defences": list(self.defences),
            "bottoms": dict(self.bottoms),
            "kinds": dict(self.kinds),
        }

    @classmethod
    def of_json(cls, record: Mapping[str, object], *, trust: bool = False) -> "Settings":
        """Read what `to_json` wrote. Code outside cutlayer that it names is imported only if the user trusts it."""
        words = {f.name: record.get(f.name) for f in fields(cls)}
        try:
            settings = read_words(cls, words)
        except (ConfigError, TypeError) as error:
            raise RunError(f"Could not read the plan in run.json ({error}); it is damaged.") from error
        models = [settings.bottom, settings.top, *settings.bottoms.values()]
        spellings = [settings.cut, *models, *settings.defences, *settings.kinds.values()]
        foreign = [spelling for spelling in spellings if "." in name_in(spelling)]
        if foreign and not trust:
            raise RunError(f"The run names code outside cutlayer ({', '.join(foreign)}); if it is yours, pass --trust.")
        if CUSTOM in models:
            raise RunError("The run was trained with modules of your own; open it in Python with cutlayer.Run.open.")
        return settings

    def _bottoms(self) -> Bottoms:
        usual = named.bottom(self.bottom)
        if not self.bottoms:
            return usual
        return PerParty(usual, {party: named.bottom(spelling) for party, spelling in self.bottoms.items()})


class PerParty(dict[str, named.Named]):
    """Bottoms by party; a party that is not listed gets the usual one."""

    def __init__(self, usual: named.Named, listed: Mapping[str, named.Named]) -> None:
        super().__init__(listed)
        self.usual = usual

    def __missing__(self, party: str) -> named.Named:
        return self.usual


def settings_of(plan: Plan) -> Settings:
    """A plan in words, every setting spelled out, so that a record does not depend on defaults."""
    bottom, bottoms = _spell_bottoms(plan.bottoms)
    return Settings(
        bottom=bottom,
        bottoms=bottoms,
        top=_spell(plan.top),
        width=plan.width,
        cut=describe(plan.cut, full=True),
        defences=tuple(describe(defence, full=True) for defence in plan.defences),
        epochs=plan.recipe.epochs,
        batch_size=plan.recipe.batch_size,
        optimiser=plan.recipe.optimiser.value,
        lr=plan.recipe.lr,
        momentum=plan.recipe.momentum,
        weight_decay=plan.recipe.weight_decay,
        schedule=describe(plan.recipe.schedule, full=True),
        patience=plan.recipe.patience,
        clip=plan.recipe.clip,
        kinds={party: name_of(kind) for party, kind in plan.parties.items()},
        lookahead=plan.lookahead,
        seed=plan.seed,
    )


def _spell_bottoms(bottoms: Bottoms) -> tuple[str, dict[str, str]]:
    if isinstance(bottoms, PerParty):
        return _spell(bottoms.usual), {party: _spell(bottom) for party, bottom in bottoms.items()}
    return _spell(bottoms), {}


def _spell(model: Bottoms | Top) -> str:
    if isinstance(model, named.Named):
        return model.spelling
    return "default" if model in (default_bottom, default_top) else CUSTOM


def read_defences(spellings: Sequence[str]) -> tuple[Defence, ...]:
    """Read defences in order; several may be joined by +, and `none` adds nothing."""
    parts = [part for spelling in spellings for part in read_setup(spelling).parts]
    cuts = find(cutlayer.cuts, Cut)
    for name, settings in parts:
        if name in cuts:
            raise ConfigError(f"{name} is a cut, not a defence: choose it with --cut {spell(name, settings)}.")
    return tuple(parse(spell(*part), cutlayer.defences, Defence, "defence") for part in parts if part != (NONE, ""))


def read_attacks(spellings: Sequence[str]) -> list[Attack]:
    """Read attacks; without any, every attack with its defaults."""
    if not spellings:
        return [cls() for cls in find(cutlayer.attacks, Attack).values()]
    return [parse(spelling, cutlayer.attacks, Attack, "attack") for spelling in spellings]


def read_cut(spelling: str) -> Cut:
    """Read a cut."""
    return parse(spelling, cutlayer.cuts, Cut, "cut")


def read_kind(name: str) -> type[FeatureParty]:
    """Read the class of a feature party, such as greedy-party."""
    return class_named(name, cutlayer.parties, FeatureParty, "kind of party")


def read_schedule(spelling: str) -> Constant:
    """Read how the learning rate changes over the epochs."""
    name, constant = spelling.partition(":")[0], kebab(Constant.__name__)
    if "." not in name:
        one_of("schedule", name, [constant, *find(cutlayer.recipe, Constant)])
    return Constant() if name == constant else parse(spelling, cutlayer.recipe, Constant, "schedule")


def read_bottoms(spellings: Sequence[str]) -> dict[str, object]:
    """Read --bottom options: MODEL for all parties, NAME=MODEL for one."""
    bottoms: dict[str, str] = {}
    words: dict[str, object] = {"bottoms": bottoms}
    for spelling in spellings:
        party, equals, model = spelling.partition("=")
        if equals and ":" not in party:
            bottoms[party.strip()] = model.strip()
        elif "bottom" in words:
            raise ConfigError(f"Expected one --bottom for all parties, got {words['bottom']} and {spelling}.")
        else:
            words["bottom"] = spelling
    return words


def read_settings(path: Path) -> dict[str, object]:
    """The words of a settings file: a run folder, its run.json, a study file or a party's file (TOML)."""
    file = path / "run.json" if path.is_dir() else path
    try:
        text = file.read_text()
        record = json.loads(text) if file.suffix == ".json" else tomllib.loads(text)
    except FileNotFoundError as error:
        raise ConfigError(f"Expected settings at {file}, found none.") from error
    except (json.JSONDecodeError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"Expected JSON or TOML in {file}, got something else: {error}.") from error
    section = next((record[key] for key in ("plan", "run") if isinstance(record.get(key), dict)), record)
    known = {f.name for f in fields(Settings)}
    if "setups" in section or "attacks" in section:  # a study: its defences are many setups, not one
        known -= {"defences"}
    words = {key: value for key, value in section.items() if key in known}
    check_words(Settings, words, lambda key: f" in {file}")
    return words
