"""Products of powers, `prod_i base_i^x_i` for many rows x at once: every base's powers are worked out once.

GMP lets go of Python's lock while it works, if it is asked to, so that threads use all cores.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

import numpy as np

from cutlayer.blocks import cores
from cutlayer.crypto.needs import load
from cutlayer.crypto.rows import PlainRows

A = TypeVar("A")
B = TypeVar("B")

WINDOW = 4  # bits looked up at a time
BITS_ALONE = 2048  # numbers of fewer bits (keys for tests) multiply faster than threads take turns


class BigInteger(Protocol):
    """What is used of gmpy2's mpz, which has no types."""

    def __mul__(self, other: "BigInteger", /) -> "BigInteger": ...
    def __mod__(self, other: "BigInteger", /) -> "BigInteger": ...
    def __int__(self) -> int: ...


def threaded(function: Callable[[A], B], items: Iterable[A], bits: int) -> list[B]:
    """`function` of every item, on all cores; `bits` says how large the numbers are that it multiplies."""
    if cores.count() == 1 or bits < BITS_ALONE:
        return list(map(function, items))
    with ThreadPoolExecutor(cores.count(), initializer=_let_go) as threads:
        return list(threads.map(function, items))


def _let_go() -> None:
    load("gmpy2").get_context().allow_release_gil = True  # of this thread only


def table(base: BigInteger, digits: int, modulus: BigInteger) -> list[list[BigInteger]]:
    """base^(v * 16^d), for every digit place d and digit v."""
    places = []
    for _ in range(digits):
        powers: list[BigInteger] = [load("gmpy2").mpz(1), base]
        for _ in range(2, 1 << WINDOW):
            powers.append(powers[-1] * base % modulus)
        places.append(powers)
        base = powers[-1] * base % modulus
    return places


def products(rows: PlainRows, bases: Sequence[BigInteger], modulus: BigInteger) -> Iterator[BigInteger]:
    """One product per row; only columns that are not all zero are touched. Negative powers share one inverse."""
    gmp = load("gmpy2")
    digits = -(-int(np.abs(rows.values).max(initial=0)).bit_length() // WINDOW)
    above, below = ([gmp.mpz(1)] * rows.shape[0] for _ in range(2))
    order = np.argsort(rows.columns, kind="stable")
    last, places = -1, []
    for index in order:
        row, column, value = int(rows.rows[index]), int(rows.columns[index]), int(rows.values[index])
        if column != last:
            last, places = column, table(bases[column], digits, modulus)
        side, left, place = (above if value > 0 else below), abs(value), 0
        while left:
            if left & 15:
                side[row] = side[row] * places[place][left & 15] % modulus
            left >>= WINDOW
            place += 1
    for up, down in zip(above, below, strict=True):
        yield up if down == 1 else up * gmp.invert(down, modulus) % modulus
