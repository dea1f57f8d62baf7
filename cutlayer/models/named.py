"""Models by name, for the command line: `--bottom mlp:hidden=32`, `--top relu-mlp:hidden=30-10`.

Nothing is registered: a function `<name>_bottom(features, width, ...)` in a file of this folder is the bottom
`<name>`, and a function `<name>_top(inputs, outputs, ...)` is the top `<name>`. A bottom is made from a party's
features and the embedding's width, a top from the joint width and the number of outputs.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from torch import nn

import cutlayer.models
from cutlayer._validate import one_of
from cutlayer.data.task import Features
from cutlayer.errors import ConfigError
from cutlayer.spec import defined, imported, settings, split_spelling

Maker = Callable[..., nn.Module]  # from features and width, or from inputs and outputs; then settings by keyword


@dataclass(frozen=True)
class Named:
    """A model by its spelling, e.g. `mlp:hidden=64-32`; called, it makes one."""

    spelling: str
    make: Maker
    settings: Mapping[str, object]

    def __call__(self, source: Features | int, size: int) -> nn.Module:
        """Make the model."""
        return self.make(source, size, **self.settings)


def bottoms() -> dict[str, Maker]:
    """Return every bottom by its name on the command line."""
    return _makers("_bottom")


def tops() -> dict[str, Maker]:
    """Return every top by its name on the command line."""
    return _makers("_top")


def bottom(spelling: str) -> Named:
    """Read the spelling of a bottom."""
    return _named(spelling, bottoms(), "bottom")


def top(spelling: str) -> Named:
    """Read the spelling of a top."""
    return _named(spelling, tops(), "top")


def _makers(ending: str) -> dict[str, Maker]:
    makers = {
        name.removesuffix(ending).replace("_", "-"): thing
        for name, thing in defined(cutlayer.models)
        if name.endswith(ending) and inspect.isfunction(thing)
    }
    return dict(sorted(makers.items()))


def _named(spelling: str, makers: dict[str, Maker], what: str) -> Named:
    name, rest = split_spelling(spelling)
    if "." not in name:
        one_of(what, name, makers)
    make = imported(name, what) if "." in name else makers[name]
    if not callable(make):
        raise ConfigError(f"Expected {what} {name!r} to be a function that makes a module.")
    return Named(spelling, make, settings(rest, make, f"{what} {name}"))
