"""Cuts, one file each. A class is exported because its file lies here: nothing is registered."""

import sys
from typing import Any

from cutlayer.cut import Cut
from cutlayer.spec import find

_found = {cls.__name__: cls for cls in find(sys.modules[__name__], Cut).values()}
globals().update(_found)
__all__ = sorted(_found)


def __getattr__(name: str) -> Any:
    """Fail as usual; type checkers read this as: names here are found at run time."""
    raise AttributeError(f"No cut {name!r} in {__name__}: expected one of {', '.join(__all__)}.")
