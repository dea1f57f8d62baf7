"""Products of powers, `prod_i base_i^x_i` for many rows x at once: every base's powers are worked out once."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from cutlayer.crypto.needs import load
from cutlayer.crypto.rows import PlainRows

WINDOW = 4  # bits looked up at a time


def table(base: Any, digits: int, modulus: Any) -> list[list[Any]]:
    """base^(v * 16^d), for every digit place d and digit v."""
    places = []
    for _ in range(digits):
        powers = [load("gmpy2").mpz(1), base]
        for _ in range(2, 1 << WINDOW):
            powers.append(powers[-1] * base % modulus)
        places.append(powers)
        base = powers[-1] * base % modulus
    return places


def products(rows: PlainRows, bases: Sequence[Any], modulus: Any) -> Iterator[Any]:
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
