"""Presets: which defences, strengths, attacks and seeds an audit tries when the user names none.

Nothing is listed here by name: every class that lies in defences/, cuts/ and attacks/ takes part, with the settings
that it says itself are worth trying (`strengths`, from weak to strong), and in a deep audit together with the
`partners` that it names. One that comes later joins by being there.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import cutlayer.attacks
import cutlayer.cuts
import cutlayer.defences
from cutlayer._validate import one_of
from cutlayer.attack import Attack
from cutlayer.cut import Cut
from cutlayer.defence import Defence
from cutlayer.spec import find, spell


class Depth(StrEnum):
    """How much an audit tries."""

    QUICK = "quick"
    STANDARD = "standard"
    DEEP = "deep"


SEEDS = {Depth.QUICK: (0,), Depth.STANDARD: (0, 1), Depth.DEEP: (0, 1, 2, 3, 4)}


@dataclass(frozen=True)
class Preset:
    """What a depth chooses."""

    defences: tuple[str, ...]
    attacks: tuple[str, ...]
    seeds: tuple[int, ...]


def preset(word: str) -> Preset:
    """The setups, attacks and seeds of a depth."""
    one_of("depth", word, list(Depth))
    depth = Depth(word)
    kinds: dict[str, type[Defence] | type[Cut]] = {**find(cutlayer.defences, Defence), **find(cutlayer.cuts, Cut)}
    setups = ["none"]
    for name, kind in kinds.items():
        setups += _spelled(name, _strengths(kind.strengths, depth))
    pairs = [f"{name}+{partner}" for name, kind in kinds.items() for partner in kind.partners]
    attacks = []
    for name, attack in find(cutlayer.attacks, Attack).items():
        attacks += _spelled(name, attack.settings[:1] if depth is Depth.QUICK else attack.settings)
    return Preset((*setups, *(pairs if depth is Depth.DEEP else ())), tuple(attacks), SEEDS[depth])


def _strengths(strengths: Sequence[str], depth: Depth) -> Sequence[str]:
    """The middle one, the weakest and the strongest, or all."""
    if depth is Depth.QUICK:
        return strengths[len(strengths) // 2 :][:1]
    if depth is Depth.STANDARD:
        return list(dict.fromkeys((*strengths[:1], *strengths[-1:])))
    return strengths


def _spelled(name: str, settings: Sequence[str]) -> list[str]:
    return [spell(name, setting) for setting in settings]
