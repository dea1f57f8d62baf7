"""The plain factors of products, in the NTT form that SEAL multiplies with.

A multiplier is a polynomial in X^run (run: the largest power of two that divides the packing's width), so
its NTT takes only N/run different values, each `run` times in a row. Those come from one small exact
matrix product, several times faster than a whole NTT; SEAL's own serves where this does not fit.
"""

from collections.abc import Iterator
from functools import cache

import numpy as np
from numpy.typing import NDArray

from cutlayer.crypto import layout
from cutlayer.crypto.context import Context, N, Plaintext, context_of
from cutlayer.crypto.envelope import CipherForm

Words = NDArray[np.uint64]
Integers = NDArray[np.int64]

LIMB = 18  # bits of a root that meet a number at a time; their sums stay below 2^53, exact in float64
MOST_VALUES = 256  # beyond this many different values, SEAL's NTT is faster


def factors(context: Context, bits: int, table: Integers) -> Iterator[Plaintext]:
    """Plaintexts in NTT form, one per row; a row holds the signed coefficients of 1, X^run, X^2run and so on."""
    run = N // table.shape[1]
    if table.shape[1] <= MOST_VALUES and spectrum_of(bits, run).holds(table):
        yield from spectrum_of(bits, run).factors(table)
        return
    for row in table:
        polynomial = np.zeros(N, np.int64)
        polynomial[::run] = row & np.int64((1 << bits) - 1)
        yield whole(context, polynomial.view(np.uint64))


def whole(context: Context, polynomial: Words) -> Plaintext:
    """SEAL's own NTT of a polynomial."""
    plain = context.plain(polynomial)
    context.evaluator.transform_to_ntt_inplace(plain, context.first)
    return plain


class Spectrum:
    """The NTT of polynomials in X^run, as a matrix modulo each prime, in limbs."""

    def __init__(self, bits: int, run: int) -> None:
        self.context, self.run, self.values = context_of(bits), run, N // run
        self.primes = self.context.primes[CipherForm.OPERAND]
        self.prefix = layout.plain_prefix(len(self.primes) * N, self.context.first)
        basis = np.stack([self._power(index) for index in range(self.values)], axis=1)
        self.limbs = [
            [(rows >> np.uint64(low) & np.uint64((1 << LIMB) - 1)).astype(np.float64) for low in self._places(prime)]
            for rows, prime in zip(basis, self.primes, strict=True)
        ]

    def holds(self, table: Integers) -> bool:
        """Whether all sums are exact."""
        top = max(int(table.max(initial=0)), -int(table.min(initial=0)))
        return (top * self.values) << LIMB < 1 << 53

    def factors(self, table: Integers) -> Iterator[Plaintext]:
        """Plaintexts in NTT form, one per row."""
        values = self.transform(table)
        for row in values:
            plain: Plaintext = self.context.seal.Plaintext()
            spread = np.repeat(row, self.run, axis=1).tobytes()
            plain.load_bytes(self.context.context, self.prefix + spread)
            yield plain

    def transform(self, table: Integers) -> Words:
        """The different values of every row's NTT: row x prime x value."""
        out = np.empty((len(table), len(self.primes), self.values), np.uint64)
        numbers = table.astype(np.float64)
        for index, (prime, limbs) in enumerate(zip(self.primes, self.limbs, strict=True)):
            total = np.zeros((len(table), self.values), np.uint64)
            for limb in limbs:  # the highest first
                part = (numbers @ limb).astype(np.int64) % np.int64(prime)
                total = (self._shifted(total, prime) + part.view(np.uint64)) % np.uint64(prime)
            out[:, index] = total
        return out

    def _shifted(self, residues: Words, prime: int) -> Words:
        """Times 2^LIMB modulo the prime, a few bits at a time."""
        step, left = 64 - prime.bit_length(), LIMB
        while left:
            bits = min(step, left)
            residues, left = (residues << np.uint64(bits)) % np.uint64(prime), left - bits
        return residues

    def _places(self, prime: int) -> range:
        return range((prime.bit_length() - 1) // LIMB * LIMB, -1, -LIMB)

    def _power(self, index: int) -> Words:
        polynomial = np.zeros(N, np.uint64)
        polynomial[index * self.run] = 1
        words = np.frombuffer(whole(self.context, polynomial).to_bytes(), "<u8", offset=layout.PLAIN_BYTES)
        return words.reshape(len(self.primes), self.values, self.run)[:, :, 0]


spectrum_of = cache(Spectrum)
