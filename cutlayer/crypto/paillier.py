"""Packed Paillier on gmpy2: the slow backend, which rests on another assumption and serves as a cross-check.

Several numbers share a plaintext, each in a slot wide enough for the whole integer product: Paillier adds
integers modulo n, not modulo t, so the owner would see how often a sum wrapped round. A cover of `mask + t*R`
with R uniform and 2^48 times larger than the overflow hides that statistically, in every slot. What remains
is the randomness of the product, `prod r_i^x_i`, from which an owner that knows every r_i can find small
x; so each result is also multiplied by a fresh r^n, which hides it perfectly.
"""

import secrets
from collections.abc import Sequence
from typing import Any

import numpy as np

from cutlayer.crypto.envelope import NO_SOURCE, CipherForm, Envelope, MatrixSource, identify, key_named, unwrap
from cutlayer.crypto.needs import load
from cutlayer.crypto.parameters import PAILLIER_KEY_BITS, PAILLIER_MOST_BITS, PAILLIER_TEST_BITS, SECURITY_BITS
from cutlayer.crypto.powers import BigInteger, products, threaded
from cutlayer.crypto.ring import Residues, Ring
from cutlayer.crypto.rows import PlainRows
from cutlayer.crypto.scheme import Encrypted, PublicKey, Scheme, SecretKey
from cutlayer.crypto.slots import Slots
from cutlayer.errors import ConfigError, ProtocolError

SMALL_PRIMES = 1000


class PaillierPublicKey(PublicKey):
    """Multiply blind. The generator is n + 1, so that g^m is 1 + m*n."""

    def __init__(self, ring: Ring, n: int, parameters: bytes) -> None:
        self._gmp = load("gmpy2")
        self.ring, self.n = ring, self._gmp.mpz(n)
        self.square = self.n * self.n
        self.bits = int(self.n.bit_length())
        self.part_bytes = self.bits // 4
        self.parameters, self.key_id = parameters, identify(parameters, self._body())

    def fresh(self) -> BigInteger:
        """A fresh r^n modulo n^2: an encryption of zero."""
        power: BigInteger = self._gmp.powmod(self.unit(), self.n, self.square)
        return power

    def unit(self) -> BigInteger:
        """A uniform number that has an inverse modulo n."""
        while True:
            r: BigInteger = self._gmp.mpz(secrets.randbelow(int(self.n) - 1) + 1)
            if self._gmp.gcd(r, self.n) == 1:
                return r

    def to_bytes(self) -> bytes:
        """The bytes that cross: n."""
        return Envelope(CipherForm.KEY, self.parameters, self.key_id, (1, 1), NO_SOURCE, len(self._body())).wrap(
            self._body()
        )

    def slots(self, inner: int) -> Slots:
        """Where numbers sit in a plaintext, for an encrypted matrix of so many rows."""
        return Slots(self.ring, self.bits, inner)

    def _body(self) -> bytes:
        return int(self.n).to_bytes(self.bits // 8, "little")

    def multiply(self, rows: PlainRows, encrypted: Encrypted, mask: Residues, sanitise: bool) -> Sequence[object]:
        """Multiply block by block of columns, and cover each product."""
        slots = self.slots(encrypted.shape[0])
        across = slots.across(encrypted.shape[1])
        parts: tuple[Any, ...] = encrypted.parts

        def block(number: int) -> list[BigInteger]:
            return list(products(rows, parts[number::across], self.square))

        def covered(pair: tuple[Any, int]) -> Any:
            product = pair[0] * (1 + self._gmp.mpz(pair[1]) * self.n) % self.square
            return product * self.fresh() % self.square if sanitise else product

        blocks = threaded(block, range(across), self.bits)
        bare = (product for row in zip(*blocks, strict=True) for product in row)
        covers = (cover for row in mask for cover in slots.cover(row))
        return threaded(covered, zip(bare, covers, strict=True), self.bits)

    def body_bytes(self, form: CipherForm, shape: tuple[int, int], source: MatrixSource) -> int:
        """The exact size of a body, known before it is read."""
        return shape[0] * self.slots(source.rows).across(shape[1]) * self.part_bytes

    def pack(self, encrypted: Encrypted) -> bytes:
        """The body of an encrypted matrix: its ciphertexts as bytes."""
        parts: tuple[Any, ...] = encrypted.parts
        return b"".join(int(part).to_bytes(self.part_bytes, "little") for part in parts)

    def unpack(
        self, body: memoryview, form: CipherForm, shape: tuple[int, int], source: MatrixSource
    ) -> tuple[Sequence[object], bytes]:
        """The ciphertexts of a body; refuses numbers that are none modulo n^2."""
        size, product = self.part_bytes, self._gmp.mpz(1)
        parts = []
        for start in range(0, len(body), size):
            part = self._gmp.mpz(int.from_bytes(body[start : start + size], "little"))
            if part >= self.square:
                raise ProtocolError("Expected ciphertexts below n^2, got larger numbers.")
            product = product * part % self.n
            parts.append(part)
        if self._gmp.gcd(product, self.n) != 1:
            raise ProtocolError("Expected ciphertexts with an inverse modulo n, got others.")
        return parts, b""


class PaillierSecretKey(SecretKey):
    """Encrypt and decrypt, modulo each prime on its own, which is about four times faster."""

    def __init__(self, ring: Ring, key_bits: int, parameters: bytes) -> None:
        self._gmp = gmp = load("gmpy2")
        self._p, self._q = self._primes(key_bits // 2)
        self.public: PaillierPublicKey = PaillierPublicKey(ring, self._p * self._q, parameters)
        n = self.public.n
        self._halves = [(p, p * p, gmp.invert(-n // p % p, p)) for p in (self._p, self._q)]  # L((1+n)^(p-1)) = -n/p
        self._inverse = gmp.invert(self._p, self._q)
        self._square_inverse = gmp.invert(self._halves[0][1], self._halves[1][1])

    def encrypt(self, matrix: Residues, for_rows: int = 0) -> Encrypted:
        """Encrypt row by row; slots are filled in the same way whatever `for_rows` is."""
        rows, columns = self.public.ring.check(matrix).shape
        self.public.check_shape(rows, columns)
        slots, n = self.public.slots(rows), self.public.n

        def part(plain: int) -> Any:
            return (1 + self._gmp.mpz(plain) * n) * self._fresh() % self.public.square

        plains = (plain for row in self.public.ring.centred(matrix) for plain in slots.fill(row))
        parts = tuple(threaded(part, plains, self.public.bits))
        return Encrypted(self.public, CipherForm.OPERAND, (rows, columns), MatrixSource(rows, columns, for_rows), parts)

    def _fresh(self) -> Any:
        r, n = self.public.unit(), self.public.n
        (p, pp, _), (q, qq, _) = self._halves
        low = self._gmp.powmod(r, n % (p * (p - 1)), pp)
        high = self._gmp.powmod(r, n % (q * (q - 1)), qq)
        return low + pp * ((high - low) * self._square_inverse % qq)

    def _number(self, cipher: Any) -> int:
        low, high = ((self._gmp.powmod(cipher, p - 1, pp) - 1) // p * factor % p for p, pp, factor in self._halves)
        return int(low + self._p * ((high - low) * self._inverse % self._q))

    def open(self, encrypted: Encrypted) -> Residues:
        """Decrypt every ciphertext and read its slots."""
        slots = self.public.slots(encrypted.source.rows)
        rows, columns = encrypted.shape
        numbers = threaded(self._number, encrypted.parts, self.public.bits)
        if encrypted.form is CipherForm.OPERAND:
            numbers = [slots.signed(number, int(self.public.n)) for number in numbers]
        across = slots.across(columns)
        return np.stack([slots.read(numbers[r * across : (r + 1) * across], columns) for r in range(rows)])

    def _primes(self, bits: int) -> tuple[Any, Any]:
        p = self._prime(bits)
        while (q := self._prime(bits)) == p:
            pass
        return p, q

    def _prime(self, bits: int) -> Any:
        while True:  # both top bits set, so that n has all its bits
            candidate = self._gmp.mpz(secrets.randbits(bits) | 3 << (bits - 2) | 1)
            if self._gmp.is_prime(candidate, 30):
                return candidate


class Paillier(Scheme):
    """Packed Paillier. `for_tests=True` allows keys that are small and *not* secure."""

    def __init__(self, ring: Ring, key_bits: int = PAILLIER_KEY_BITS, *, for_tests: bool = False) -> None:
        least = PAILLIER_TEST_BITS if for_tests else PAILLIER_KEY_BITS
        if not least <= key_bits <= PAILLIER_MOST_BITS or key_bits % 16:
            raise ConfigError(
                f"Expected key_bits={key_bits} to be a multiple of 16 between {least} and {PAILLIER_MOST_BITS}: "
                f"{PAILLIER_KEY_BITS} bits give {SECURITY_BITS}-bit security."
            )
        self.ring, self.key_bits = ring, key_bits
        self.parameters = identify("paillier", ring.bits, key_bits)

    def generate(self) -> PaillierSecretKey:
        """Make a fresh key pair."""
        return PaillierSecretKey(self.ring, self.key_bits, self.parameters)

    def read_key(self, data: bytes | memoryview) -> PaillierPublicKey:
        """Read a public key that a peer sent."""
        named = key_named(data)
        body = unwrap(data, Envelope(CipherForm.KEY, self.parameters, named, (1, 1), NO_SOURCE, self.key_bits // 8))
        n = int.from_bytes(body, "little")
        gmp = load("gmpy2")
        if n.bit_length() != self.key_bits or gmp.gcd(n, gmp.primorial(SMALL_PRIMES)) != 1 or gmp.is_prime(n):
            raise ProtocolError(f"Expected a product of two large primes of {self.key_bits} bits as a public key.")
        key = PaillierPublicKey(self.ring, n, self.parameters)
        if key.key_id != named:
            raise ProtocolError("Expected a public key whose name matches its bytes, got a damaged one.")
        return key
