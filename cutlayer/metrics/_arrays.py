"""Checks of what a metric is given; float64 from here on, so that bytes do not wrap around."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cutlayer.errors import DataError

Floats = NDArray[np.float64]


def numbers(name: str, values: ArrayLike, axes: Sequence[str] = ()) -> Floats:
    """Finite float64 numbers; `axes` lists the layouts allowed, such as "rows, columns" (none: any with rows)."""
    try:
        found = np.asarray(values)
    except (TypeError, ValueError, RuntimeError) as error:
        raise DataError(f"Expected {name} to be an array of numbers: {error}") from error
    if found.dtype.kind not in "biuf":
        raise DataError(f"Expected {name} to be an array of real numbers, got dtype {found.dtype}.")
    allowed = [layout.count(",") + 1 for layout in axes]
    if found.ndim not in allowed if allowed else found.ndim == 0:
        layouts = " or ".join(f"({layout})" for layout in axes) or "(rows, ...)"
        raise DataError(f"Expected {name} of shape {layouts}, got {found.shape}.")
    if not found.size:
        raise DataError(f"Expected {name} to hold at least one number, got shape {found.shape}.")
    found = found.astype(np.float64, copy=False)
    if not np.isfinite(found).all():
        raise DataError(f"Expected {name} to hold finite numbers only, got {np.sum(~np.isfinite(found))} that are not.")
    return found


def alike(truth: ArrayLike, guess: ArrayLike, axes: Sequence[str] = ()) -> tuple[Floats, Floats]:
    """Truth and guess of one shape."""
    one, other = numbers("truth", truth, axes), numbers("guess", guess, axes)
    if one.shape != other.shape:
        raise DataError(f"Expected truth and guess of one shape, got {one.shape} and {other.shape}.")
    return one, other


def samples(names: tuple[str, str], x: ArrayLike, y: ArrayLike, least: int) -> tuple[Floats, Floats]:
    """Two tables about the same rows, at least `least` of them."""
    one, other = (numbers(name, table, ["rows, columns"]) for name, table in zip(names, (x, y), strict=True))
    if len(one) != len(other):
        raise DataError(f"Expected as many rows in {names[0]} as in {names[1]}, got {len(one)} and {len(other)}.")
    if len(one) < least:
        raise DataError(f"Expected at least {least} rows, got {len(one)}.")
    return one, other
