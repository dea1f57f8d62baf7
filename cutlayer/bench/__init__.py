"""Benchmarks: each compares with a reference in the same process and reports a `ratio`."""

from collections.abc import Callable
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

NAMES = tuple(sorted(info.name for info in iter_modules(__path__)))


def run(name: str, repeats: int, progress: Callable[[int, int], None] = lambda done, total: None) -> dict[str, Any]:
    """Run a benchmark by the name of its file."""
    result: dict[str, Any] = import_module(f"{__name__}.{name}").measure(repeats, progress)
    return result
