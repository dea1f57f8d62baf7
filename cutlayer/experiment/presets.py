"""Presets: which defences, strengths, attacks and seeds an audit tries when nobody says.

Nothing is listed here by name: every class that lies in defences/, cuts/ and attacks/ takes part, with the settings
that it says itself are worth trying (`strengths`, from weak to strong). One that comes later joins by being there.
"""

from dataclasses import dataclass

import cutlayer.attacks
import cutlayer.cuts
import cutlayer.defences
from cutlayer._validate import one_of
from cutlayer.attack import Attack
from cutlayer.cut import Cut
from cutlayer.cuts.concat import Concat
from cutlayer.cuts.sum import Sum
from cutlayer.defence import Defence
from cutlayer.spec import find

DEPTHS = ("quick", "standard", "deep")
SEEDS = {"quick": (0,), "standard": (0, 1), "deep": (0, 1, 2, 3, 4)}
OPEN = (Concat, Sum)  # cuts that protect nothing
PAIRS = ("hash+max-norm", "gaussian-noise+label-dp", "secure-sum+column-noise")  # tried together, in a deep audit


@dataclass(frozen=True)
class Preset:
    """What a depth chooses."""

    defences: tuple[str, ...]
    attacks: tuple[str, ...]
    seeds: tuple[int, ...]


def preset(depth: str) -> Preset:
    """The setups, attacks and seeds of a depth."""
    one_of("depth", depth, DEPTHS)
    kinds: dict[str, type[Defence] | type[Cut]] = {**find(cutlayer.defences, Defence), **find(cutlayer.cuts, Cut)}
    setups = ["none"]
    for name, kind in kinds.items():
        if kind in OPEN:
            continue
        strengths = kind.strengths
        if depth == "quick":
            strengths = strengths[len(strengths) // 2 :][:1]  # the middle one
        elif depth == "standard":
            strengths = tuple(dict.fromkeys((*strengths[:1], *strengths[-1:])))  # the weakest and the strongest
        setups += [f"{name}:{setting}" if setting else name for setting in strengths]
    attacks = [
        f"{name}:{setting}" if setting else name
        for name, kind in find(cutlayer.attacks, Attack).items()
        for setting in (kind.settings if depth != "quick" else kind.settings[:1])
    ]
    return Preset((*setups, *(PAIRS if depth == "deep" else ())), tuple(attacks), SEEDS[depth])
