"""Several numbers in one Paillier plaintext: slots wide enough that nothing spills into the next."""

import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from cutlayer.crypto.parameters import PAILLIER_COVER_BITS
from cutlayer.crypto.ring import Residues, Ring
from cutlayer.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Slots:
    """The slots of a plaintext of `key_bits`, for products over `inner` terms of the ring's signed numbers."""

    ring: Ring
    key_bits: int
    inner: int

    def __post_init__(self) -> None:
        if self.each < 1:
            raise ConfigError(f"Expected a key of more than {8 * self.width} bits for this product.")

    @property
    def product_bits(self) -> int:
        """No sum of products is larger than 2^this."""
        return 2 * (self.ring.bits - 1) + (self.inner - 1).bit_length()

    @property
    def width(self) -> int:
        """Bytes of a slot: the product, its cover, and two bits for their sums."""
        return -(-(self.product_bits + PAILLIER_COVER_BITS + 2) // 8)

    @property
    def each(self) -> int:
        """Numbers per plaintext; they stay below n/2, so that signs survive."""
        return (self.key_bits - 2) // (8 * self.width)

    def across(self, columns: int) -> int:
        """Plaintexts for one row."""
        return -(-columns // self.each)

    def fill(self, row: Residues) -> Iterator[int]:
        """Signed numbers into plaintexts; a negative one borrows from the next slot."""
        for start in range(0, len(row), self.each):
            yield self._join([int(value) for value in row[start : start + self.each]])

    def cover(self, row: Residues) -> Iterator[int]:
        """One row of the mask, with t times a large random number in every slot, which no product can show through."""
        cover_bits = self.product_bits - self.ring.bits + PAILLIER_COVER_BITS + 1
        least = 1 << (self.product_bits - self.ring.bits)  # keeps the sum positive
        for start in range(0, len(row), self.each):
            part = row[start : start + self.each]
            yield self._join(
                [int(value) + ((secrets.randbits(cover_bits) + least) << self.ring.bits) for value in part]
            )

    def read(self, numbers: Sequence[int], columns: int) -> Residues:
        """Residues modulo t from plaintexts: the low bytes of each slot."""
        size = self.each * self.width
        wide = b"".join((number % (1 << 8 * size)).to_bytes(size, "little") for number in numbers)
        table = np.frombuffer(wide, np.uint8).reshape(-1, self.width)[:columns]
        words = np.zeros((len(table), 8), np.uint8)
        words[:, : min(8, self.width)] = table[:, :8]
        return self.ring.wrap(words.view("<i8")[:, 0])

    def signed(self, number: int, n: int) -> int:
        """A plaintext modulo n as a signed number, with the borrows of negative slots paid back."""
        value = number - n if number > n // 2 else number
        half = sum(1 << (8 * self.width * (place + 1) - 1) for place in range(self.each))
        return value + half

    def _join(self, values: Sequence[int]) -> int:
        return sum(value << (8 * self.width * place) for place, value in enumerate(values))
