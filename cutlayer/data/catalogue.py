"""Public datasets by name: `load("digits", parties=3)`.

Nothing is registered: a function in a file of `sets/` is a dataset if the file also holds an `About` under the same
name in capitals (`wine` and `WINE`).
"""

import inspect
from collections.abc import Callable

from cutlayer._validate import one_of
from cutlayer.data import sets
from cutlayer.data.about import About
from cutlayer.data.task import Task
from cutlayer.spec import modules

Loader = Callable[..., Task]


def loaders() -> dict[str, Loader]:
    """Return every dataset's loader by the dataset's name."""
    return {about.name: loader for about, loader in _found()}


def names() -> tuple[str, ...]:
    """Names of all datasets that `load` knows."""
    return tuple(loaders())


def describe() -> list[About]:
    """What is known of every dataset, without opening a file."""
    return [about for about, _ in _found()]


def load(name: str, **options: object) -> Task:
    """Make a task by the name of its dataset, as a saved `Task.source` holds it."""
    one_of("dataset", name, names())
    loader = loaders()[name]
    allowed = list(inspect.signature(loader).parameters)
    for option in options:
        one_of(f"option of {name}", option, allowed)
    return loader(**options)


def _found() -> list[tuple[About, Loader]]:
    pairs = [
        (about, getattr(module, constant.lower()))
        for module in modules(sets)
        for constant, about in vars(module).items()
        if isinstance(about, About) and hasattr(module, constant.lower())
    ]
    return sorted(pairs, key=lambda pair: pair[0].name)
