"""Benchmarks: each compares with a reference in the same process and reports a `ratio`."""

from importlib import import_module
from inspect import signature

from cutlayer.bench.parts.timing import Figures
from cutlayer.errors import ConfigError
from cutlayer.exports import files_in
from cutlayer.progress import Progress, silent

NAMES = tuple(files_in("bench"))


def run(
    name: str,
    repeats: int,
    progress: Progress = silent,
    size: int | None = None,
) -> Figures:
    """Run a benchmark by the name of its file; `size` is for those that come in several."""
    measure = import_module(f"{__name__}.{name}").measure
    if size is not None and "size" not in signature(measure).parameters:
        raise ConfigError(f"The benchmark {name!r} has one size only; leave out --size.")
    result: Figures = measure(repeats, progress, **({} if size is None else {"size": size}))
    return result
