"""Flooding: noise so large that the noise of a product, which is linear in the plain rows, drowns in it."""

import os
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]


def flood(bits: int, primes: Sequence[int], count: int) -> Words:
    """`count` integers, uniform in [-2^bits, 2^bits), from a cryptographic generator, modulo each prime.

    Wide integers are read digit by digit, each digit small enough that nothing exceeds 64 bits.
    """
    limbs = np.frombuffer(os.urandom(count * 16), "<u8").reshape(2, count)
    low_bits = min(bits + 1, 64)
    high = limbs[0] & np.uint64((1 << (bits + 1 - low_bits)) - 1)
    out = np.empty((len(primes), count), np.uint64)
    for residues, prime in zip(out, primes, strict=True):
        step = 64 - prime.bit_length()
        modulus = np.uint64(prime)
        value = high % modulus
        left = low_bits
        while left:
            width = min(step, left)
            left -= width
            digit = (limbs[1] >> np.uint64(left)) & np.uint64((1 << width) - 1)
            value = ((value << np.uint64(width)) | digit) % modulus
        # Centre by subtracting 2^bits.
        residues[:] = (value + np.uint64(prime - pow(2, bits, prime))) % modulus
    return out
