"""What BFV puts on the wire: only what the reader cannot work out itself.

Of an operand one polynomial in two crosses, as the other grows from a seed. Of a result all of c1
crosses, but of c0 only the coefficients that hold the product.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cutlayer.crypto.context import Ciphertext, Context, N
from cutlayer.crypto.envelope import CipherForm, MatrixSource
from cutlayer.crypto.layout import from_wire, residues, to_wire, width_of

Words = NDArray[np.uint64]
SEED_BYTES = 32


def polynomial_bytes(primes: Sequence[int]) -> int:
    """Bytes of one polynomial."""
    return sum(N * width_of(prime) for prime in primes)


def write_polynomials(words: Words, primes: Sequence[int]) -> bytes:
    """Polynomials, as polynomial x prime x coefficient."""
    return b"".join(to_wire(row, prime) for polynomial in words for row, prime in zip(polynomial, primes, strict=True))


def read_polynomials(body: memoryview, primes: Sequence[int]) -> Words:
    """Undo `write_polynomials`."""
    count = len(body) // polynomial_bytes(primes)
    words, start = np.empty((count, len(primes), N), np.uint64), 0
    for polynomial in words:
        for row, prime in zip(polynomial, primes, strict=True):
            stop = start + N * width_of(prime)
            row[:] = from_wire(body[start:stop], prime)
            start = stop
    return words


def operand_bytes(context: Context, source: MatrixSource) -> int:
    """Bytes of an encrypted matrix."""
    return SEED_BYTES + context.packing(source).operands * polynomial_bytes(context.primes[CipherForm.OPERAND])


def write_operand(context: Context, seed: bytes, parts: Sequence[Ciphertext]) -> bytes:
    """The seed, and c0 of every ciphertext."""
    primes = context.primes[CipherForm.OPERAND]
    return seed + b"".join(write_polynomials(residues(part.to_string(), len(primes), N)[:1], primes) for part in parts)


def read_operand(context: Context, body: memoryview) -> tuple[list[Ciphertext], bytes]:
    """Undo `write_operand`."""
    primes, seed = context.primes[CipherForm.OPERAND], bytes(body[:SEED_BYTES])
    size, parts = polynomial_bytes(primes), []
    for index, start in enumerate(range(SEED_BYTES, len(body), size)):
        first = read_polynomials(body[start : start + size], primes)
        words = np.concatenate([first, context.second_half(seed, index)[None]])
        parts.append(context.cipher(context.prefix[CipherForm.OPERAND], words))
    return parts, seed


def result_bytes(context: Context, rows: int, source: MatrixSource) -> int:
    """Bytes of a masked product."""
    numbers = context.packing(source).results(rows) * N + rows * source.columns
    return numbers * sum(map(width_of, context.primes[CipherForm.RESULT]))


def write_result(context: Context, rows: int, source: MatrixSource, parts: Sequence[Ciphertext]) -> bytes:
    """c1 and the coefficients in use of c0, ciphertext by ciphertext, prime by prime."""
    primes, out = context.primes[CipherForm.RESULT], []
    for part, (_, _, places) in zip(parts, context.packing(source).chunks(rows), strict=True):
        words = residues(part.to_string(), len(primes), N)
        for index, prime in enumerate(primes):
            out += [to_wire(words[1, index], prime), to_wire(words[0, index][places], prime)]
    return b"".join(out)


def read_result(context: Context, body: memoryview, rows: int, source: MatrixSource) -> list[Ciphertext]:
    """Undo `write_result`; what was not sent is zero."""
    primes, parts, start = context.primes[CipherForm.RESULT], [], 0
    for _, _, places in context.packing(source).chunks(rows):
        words = np.zeros((2, len(primes), N), np.uint64)
        for index, prime in enumerate(primes):
            stop = start + (N + places.size) * width_of(prime)
            sent = from_wire(body[start:stop], prime)
            words[1, index], words[0, index][places] = sent[:N], sent[N:].reshape(places.shape)
            start = stop
        parts.append(context.cipher(context.prefix[CipherForm.RESULT], words))
    return parts
