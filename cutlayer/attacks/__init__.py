"""Attacks, one file each. A class is exported because its file lies here: nothing is registered."""

import sys
from typing import Any

from cutlayer.attack import Attack
from cutlayer.attacks.tools.binary.recover import Recovered as Recovered
from cutlayer.attacks.tools.binary.recover import recover_binary as recover_binary
from cutlayer.spec import find

_found = {cls.__name__: cls for cls in find(sys.modules[__name__], Attack).values()}
globals().update(_found)
__all__ = sorted([*_found, "Recovered", "recover_binary"])


def __getattr__(name: str) -> Any:
    """Fail as usual; type checkers read this as: names here are found at run time."""
    raise AttributeError(f"No attack {name!r} in {__name__}: expected one of {', '.join(__all__)}.")
