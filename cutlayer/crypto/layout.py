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


def plain_prefix(coefficients: int) -> bytes:
    """All that precedes the coefficients of a plaintext."""
    total = HEADER.size + PLAIN.size + HEADER.size + 8 + 8 * coefficients
    return _header(total) + PLAIN.pack(*NOWHERE, coefficients, 1.0) + _array(coefficients)


def cipher_prefix(identifier: Identifier, primes: int, degree: int, *, ntt: bool) -> bytes:
    """All that precedes the residues of a ciphertext of two polynomials (or of a public key, which is one)."""
    words = 2 * primes * degree
    total = HEADER.size + CIPHER.size + HEADER.size + 8 + 8 * words
    return _header(total) + CIPHER.pack(*identifier, int(ntt), 2, degree, primes, 1.0, 1) + _array(words)


PLAIN_BYTES = len(plain_prefix(0))
CIPHER_BYTES = len(cipher_prefix(NOWHERE, 1, 1, ntt=False))


def coefficients(plain: bytes, degree: int) -> Words:
    """The coefficients of a serialised plaintext, filled up with zeros to the degree."""
    found = np.frombuffer(plain, "<u8", offset=PLAIN_BYTES)
    out = np.zeros(degree, np.uint64)
    out[: len(found)] = found
    return out


def residues(cipher: bytes, primes: int, degree: int) -> Words:
    """The residues of a serialised ciphertext or public key: polynomial x prime x coefficient."""
    return np.frombuffer(cipher, "<u8", offset=CIPHER_BYTES).reshape(2, primes, degree)


def body_size(primes: Sequence[int], degree: int) -> int:
    """Bytes of one ciphertext on the wire: whole bytes per residue, seven for a prime of 54 bits."""
    return sum(2 * degree * -(-prime.bit_length() // 8) for prime in primes)


def to_body(words: Words, primes: Sequence[int]) -> bytes:
    """Residues as they cross, without the zero bytes at their top."""
    parts = []
    for index, prime in enumerate(primes):
        width = -(-prime.bit_length() // 8)
        wide = np.ascontiguousarray(words[:, index]).view(np.uint8).reshape(-1, 8)
        parts.append(wide[:, :width].tobytes())
    return b"".join(parts)


def from_body(body: memoryview, primes: Sequence[int], degree: int) -> Words:
    """Undo `to_body`; refuse residues that are no residues."""
    words = np.zeros((2, len(primes), degree), np.uint64)
    start = 0
    for index, prime in enumerate(primes):
        width = -(-prime.bit_length() // 8)
        stop = start + 2 * degree * width
        wide = np.zeros((2 * degree, 8), np.uint8)
        wide[:, :width] = np.frombuffer(body[start:stop], np.uint8).reshape(2 * degree, width)
        words[:, index] = wide.view("<u8").reshape(2, degree)
        if int(words[:, index].max()) >= prime:
            raise ProtocolError("Expected residues below their prime in a ciphertext, got larger numbers.")
        start = stop
    return words
