"""SEAL's own byte layout, the fast way in and out of its objects (a test pins it).

A peer's bytes never reach SEAL's reader as they are: headers are built here from our own context, and
only residues, checked against their primes, come from outside.
"""

import struct
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cutlayer.errors import ProtocolError

Words = NDArray[np.uint64]
Identifier = Sequence[int]  # SEAL's parms_id: four words

HEADER = struct.Struct("<HBBBBHQ")  # magic, header size, version, no compression, reserved, total bytes
PLAIN = struct.Struct("<4QQd")  # parms_id, coefficients, scale
CIPHER = struct.Struct("<4QBQQQdQ")  # parms_id, NTT form, polynomials, degree, primes, scale, correction factor
NOWHERE = (0, 0, 0, 0)


def _header(total: int) -> bytes:
    return HEADER.pack(0xA15E, HEADER.size, 4, 4, 0, 0, total)


def _array(words: int) -> bytes:
    return _header(HEADER.size + 8 + 8 * words) + words.to_bytes(8, "little")


def plain_prefix(coefficients: int, identifier: Identifier = NOWHERE) -> bytes:
    """All that precedes the coefficients of a plaintext (in NTT form: residues, at the level of `identifier`)."""
    total = HEADER.size + PLAIN.size + HEADER.size + 8 + 8 * coefficients
    return _header(total) + PLAIN.pack(*identifier, coefficients, 1.0) + _array(coefficients)


def cipher_prefix(identifier: Identifier, primes: int, degree: int, *, ntt: bool) -> bytes:
    """All that precedes the residues of a ciphertext of two polynomials (or of a public key, which is one)."""
    words = 2 * primes * degree
    total = HEADER.size + CIPHER.size + HEADER.size + 8 + 8 * words
    return _header(total) + CIPHER.pack(*identifier, int(ntt), 2, degree, primes, 1.0, 1) + _array(words)


PLAIN_BYTES = len(plain_prefix(0))
CIPHER_BYTES = len(cipher_prefix(NOWHERE, 1, 1, ntt=False))


def coefficients(plain: bytes, degree: int) -> Words:
    """The coefficients of a serialised plaintext, filled up with zeros to the degree."""
    words = np.frombuffer(plain, "<u8", offset=PLAIN_BYTES)
    out = np.zeros(degree, np.uint64)
    out[: len(words)] = words
    return out


def residues(cipher: bytes, primes: int, degree: int) -> Words:
    """The residues of a serialised ciphertext or public key: polynomial x prime x coefficient."""
    return np.frombuffer(cipher, "<u8", offset=CIPHER_BYTES).reshape(2, primes, degree)


def width_of(prime: int) -> int:
    """Whole bytes per residue on the wire: seven for a prime of 54 bits."""
    return -(-prime.bit_length() // 8)


def to_wire(words: Words, prime: int) -> bytes:
    """Residues as they cross, without the zero bytes at their top."""
    return np.ascontiguousarray(words).view(np.uint8).reshape(-1, 8)[:, : width_of(prime)].tobytes()


def from_wire(body: memoryview, prime: int) -> Words:
    """Undo `to_wire`; refuse numbers that are no residues."""
    table = np.frombuffer(body, np.uint8).reshape(-1, width_of(prime))
    wide = np.zeros((len(table), 8), np.uint8)
    wide[:, : table.shape[1]] = table
    words: Words = wide.view("<u8")[:, 0]
    if int(words.max()) >= prime:
        raise ProtocolError("Expected residues below their prime in a ciphertext, got larger numbers.")
    return words
