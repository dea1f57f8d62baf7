"""SEAL's objects for one ring, made once, and what the two parties derive from them."""

from functools import cache
from hashlib import shake_128
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from cutlayer.crypto import layout
from cutlayer.crypto.envelope import CipherForm, MatrixSource, identify
from cutlayer.crypto.needs import load
from cutlayer.crypto.packing import Packing
from cutlayer.crypto.parameters import BFV_DEGREE, BFV_OPERAND_CIPHERTEXTS, BFV_SETS, SECURITY_BITS
from cutlayer.errors import ConfigError

Words = NDArray[np.uint64]
N = BFV_DEGREE
SPARE = 64  # words drawn beyond N, for those that a prime refuses: one in 2^29 at most


class Plaintext(Protocol):
    """What is used of SEAL's plaintexts."""

    def load_bytes(self, context: object, data: bytes, /) -> None:
        """Take on what the bytes say."""
        ...

    def to_bytes(self) -> bytes:
        """Give the bytes that `load_bytes` takes."""
        ...


class Ciphertext(Protocol):
    """What is used of SEAL's ciphertexts."""

    def load_bytes(self, context: object, data: bytes, /) -> None:
        """Take on what the bytes say."""
        ...

    def to_string(self) -> bytes:
        """Give the bytes that `load_bytes` takes."""
        ...


class Context:
    """Parameters, primes by form, and the fast ways into SEAL's objects."""

    def __init__(self, bits: int) -> None:
        seal, chosen = load("seal"), BFV_SETS[bits]
        parms = seal.EncryptionParameters(seal.scheme_type.bfv)
        parms.set_poly_modulus_degree(N)
        parms.set_coeff_modulus(seal.CoeffModulus.Create(N, [*chosen.primes, chosen.special]))
        parms.set_plain_modulus(1 << bits)
        self.seal, self.flood_bits, self.statistical_bits = seal, chosen.flood, chosen.statistical
        self.context = seal.SEALContext(parms, True, seal.sec_level_type.tc128)
        if not self.context.parameters_set():
            raise ConfigError(f"SEAL refuses these parameters at {SECURITY_BITS}-bit security.")
        self.evaluator = seal.Evaluator(self.context)
        key_primes = tuple(int(m.value()) for m in self.context.key_context_data().parms().coeff_modulus())
        self.primes = {
            CipherForm.KEY: key_primes,
            CipherForm.OPERAND: key_primes[:-1],
            CipherForm.RESULT: key_primes[: chosen.kept],
        }
        self.first, self.last = self.context.first_parms_id(), self._level(chosen.kept)
        self.parameters = identify("bfv", bits, N, *key_primes)
        key_level = self.context.key_context_data().parms_id()
        self.prefix = {
            CipherForm.KEY: layout.cipher_prefix(key_level, 4, N, ntt=True),
            CipherForm.OPERAND: layout.cipher_prefix(self.first, 3, N, ntt=True),
            CipherForm.RESULT: layout.cipher_prefix(self.last, chosen.kept, N, ntt=False),
        }
        self.first_prefix = layout.cipher_prefix(self.first, 3, N, ntt=False)
        self.plain_prefix = layout.plain_prefix(N)

    def _level(self, primes: int) -> layout.Identifier:
        """SEAL's name for the level at which so many primes are left."""
        level = self.context.first_context_data()
        while len(level.parms().coeff_modulus()) > primes:
            level = level.next_context_data()
        identifier: layout.Identifier = level.parms_id()
        return identifier

    def plain(self, coefficients: Words) -> Plaintext:
        """A plaintext from its coefficients."""
        plaintext: Plaintext = self.seal.Plaintext()
        plaintext.load_bytes(self.context, self.plain_prefix + coefficients.tobytes())
        return plaintext

    def cipher(self, prefix: bytes, residues: Words) -> Ciphertext:
        """A ciphertext from its residues."""
        ciphertext: Ciphertext = self.seal.Ciphertext()
        ciphertext.load_bytes(self.context, prefix + residues.tobytes())
        return ciphertext

    def packing(self, source: MatrixSource) -> Packing:
        """Where numbers sit; both parties work it out from the source alone."""
        weight = len(self.primes[CipherForm.OPERAND]) // len(self.primes[CipherForm.RESULT])
        return Packing.choose(source, N, BFV_OPERAND_CIPHERTEXTS, weight)

    def second_half(self, seed: bytes, index: int) -> Words:
        """The random polynomial of an operand's ciphertext `index`, grown from a public seed so as not to cross."""
        primes = self.primes[CipherForm.OPERAND]
        stream = shake_128(seed + index.to_bytes(8, "little")).digest(8 * len(primes) * (N + SPARE))
        out = np.empty((len(primes), N), np.uint64)
        for row, words, prime in zip(out, np.frombuffer(stream, "<u8").reshape(len(primes), -1), primes, strict=True):
            narrow = words & np.uint64((1 << prime.bit_length()) - 1)
            row[:] = narrow[narrow < prime][:N]
        return out


context_of = cache(Context)
