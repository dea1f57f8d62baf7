"""Checks of what a metric is given; float64 from here on, so that bytes do not wrap around."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cutlayer.errors import DataError

Floats = NDArray[np.float64]


def numbers(name: str, values: ArrayLike, axes: Sequence[str] = ()) -> Floats:
    """Finite float64 numbers; `axes` lists the layouts allowed, such as "rows, columns" (none: any with rows)."""
    try:
        array = np.asarray(values)
    except (TypeError, ValueError, RuntimeError) as error:
        raise DataError(f"Expected {name} to be an array of numbers: {error}") from error
    if array.dtype.kind not in "biuf":
        raise DataError(f"Expected {name} to be an array of real numbers, got dtype {array.dtype}.")
    allowed = [layout.count(",") + 1 for layout in axes]
    if array.ndim not in allowed if allowed else array.ndim == 0:
        layouts = " or ".join(f"({layout})" for layout in axes) or "(rows, ...)"
        raise DataError(f"Expected {name} of shape {layouts}, got {array.shape}.")
    if not array.size:
        raise DataError(f"Expected {name} to hold at least one number, got shape {array.shape}.")
    array = array.astype(np.float64, copy=False)
    if not np.isfinite(array).all():
        raise DataError(f"Expected {name} to hold finite numbers only, got {np.sum(~np.isfinite(array))} that are not.")
    return array


def alike(truth: ArrayLike, guess: ArrayLike, axes: Sequence[str] = ()) -> tuple[Floats, Floats]:
    """Truth and guess of one shape."""
    true, guessed = numbers("truth", truth, axes), numbers("guess", guess, axes)
    if true.shape != guessed.shape:
        raise DataError(f"Expected truth and guess of one shape, got {true.shape} and {guessed.shape}.")
    return true, guessed


def samples(names: tuple[str, str], x: ArrayLike, y: ArrayLike, least: int) -> tuple[Floats, Floats]:
    """Two tables about the same rows, at least `least` of them."""
    first, second = (numbers(name, table, ["rows, columns"]) for name, table in zip(names, (x, y), strict=True))
    if len(first) != len(second):
        raise DataError(f"Expected as many rows in {names[0]} as in {names[1]}, got {len(first)} and {len(second)}.")
    if len(first) < least:
        raise DataError(f"Expected at least {least} rows, got {len(first)}.")
    return first, second
