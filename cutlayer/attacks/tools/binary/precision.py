"""Precision: what the numbers of a dump were rounded to, read off the numbers themselves.

A dump does not say how it was made: float16 values arrive as float32, a CSV file of two decimals as
float64. But every number is a multiple of the step that it was rounded to, and so many multiples are no
chance. Four kinds of steps are told: a number of significant bits (float16 has 11, bfloat16 8, float32
24), a binary grid (fixed point, whole numbers), so many decimals, so many significant digits.

Specification: binary-search, section 3.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from cutlayer.attacks.tools.binary.span import CHUNK, Floats, Singles

DOUBLE = 53  # significant bits of float64
MOST = 15  # decimals and digits that float64 can tell
SURE = 0.1  # of a step: how far a decimal multiple may lie off in binary, and be no chance among many
OWN = 2.0**-51  # of a number: our own rounding
FIRST = 200  # numbers that rule most kinds out
NAMES = {8: "bfloat16", 11: "float16", 24: "float32", 53: "float64"}


@dataclass(frozen=True)
class Precision:
    """The coarsest steps that all numbers are multiples of; None where there are no such steps."""

    bits: int  # significant ones
    grid: int  # all numbers are multiples of 2^grid
    decimals: int | None
    digits: int | None  # significant decimal ones

    def __str__(self) -> str:
        if self.decimals is not None and (self.digits is None or self.decimals < self.digits):
            return f"{self.decimals} decimal{'s' * (self.decimals != 1)}"
        if self.digits is not None:
            return f"{self.digits} digit{'s' * (self.digits != 1)}"
        if self.grid >= 0:
            return "whole numbers"
        return NAMES.get(self.bits, f"{self.bits} bits")

    @property
    def computed(self) -> bool:
        """Whether sums may have been added up in this precision too, which adds errors to those of storing."""
        return self.decimals is None and self.digits is None and self.bits in (24, DOUBLE)

    def steps(self, numbers: Floats) -> Floats:
        """The step at each number: what it can be off by, both ways together; zero where it is zero."""
        exponents = np.frexp(numbers)[1]
        steps = np.maximum(np.ldexp(1.0, exponents - self.bits), 2.0**self.grid)
        if self.decimals is not None:
            steps = np.maximum(steps, 10.0**-self.decimals)
        if self.digits is not None:
            steps = np.maximum(steps, 10.0 ** (_magnitude(numbers) + 1 - self.digits))
        return np.where(numbers == 0, 0.0, steps)


def precision_of(array: Singles | Floats) -> Precision:
    """Look at every number."""
    bits, grid = 1, 1_000
    for part in _parts(array):
        mantissa, exponents = np.frexp(part[part != 0])
        whole = (np.abs(mantissa) * 2.0**DOUBLE).astype(np.int64)
        used = DOUBLE + 1 - np.frexp((whole & -whole).astype(np.float64))[1]
        bits = max(bits, int(used.max(initial=1)))
        grid = min(grid, int((exponents - used).min(initial=1_000)))
    decimals = _fewest(array, bits, range(MOST + 1), _by_decimals)
    digits = _fewest(array, bits, range(1, MOST + 1), _by_digits)
    return Precision(bits, max(grid, -1_000), decimals, digits)


def _parts(array: Singles | Floats) -> Iterator[Floats]:
    for i in range(0, len(array), CHUNK):
        yield array[i : i + CHUNK].astype(np.float64)


def _fewest(array: Singles | Floats, bits: int, counts: range, scale: Callable[[Floats, int], Floats]) -> int | None:
    """The fewest decimals or digits that leave whole numbers, if they leave any that are no chance."""

    def whole(numbers: Floats, count: int) -> bool:
        scaled = np.abs(numbers) * scale(numbers, count)
        slack = scaled * (2.0**-bits + OWN)
        return bool((np.abs(scaled - np.rint(scaled)) <= slack).all() and slack.max(initial=0) < SURE)

    first = array[: 1 + FIRST // array.shape[1]].astype(np.float64)
    for count in counts:
        if whole(first, count) and all(whole(part, count) for part in _parts(array)):
            return count
    return None


def _by_decimals(numbers: Floats, count: int) -> Floats:
    return np.full(numbers.shape, 10.0**count)


def _by_digits(numbers: Floats, count: int) -> Floats:
    return np.asarray(10.0 ** (count - 1 - _magnitude(numbers)))


def _magnitude(numbers: Floats) -> Floats:
    """The place of the first digit: 2 for 123, -1 for 0.5."""
    return np.asarray(np.floor(np.log10(np.where(numbers == 0, 1.0, np.abs(numbers)))))
