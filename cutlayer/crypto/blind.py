"""One ciphertext of a BFV product: multiply, mask, sanitise (bfv.py says why). Here, or in another process.

Another process gets the public key, its rows and masks on a pipe, and ciphertexts of the matrix in a file
that all of them share, each at its place: only those that some row touches are written.
"""

import mmap
import os
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from tempfile import TemporaryFile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutlayer.crypto.context import N, context_of
from cutlayer.crypto.envelope import Form
from cutlayer.crypto.flood import flood
from cutlayer.crypto.layout import CIPHER_BYTES, residues
from cutlayer.crypto.packing import Packing
from cutlayer.crypto.parameters import BFV_FRESH_NOISE, STATISTICAL_BITS
from cutlayer.crypto.rows import PlainRows
from cutlayer.crypto.spectrum import factors
from cutlayer.errors import DataError

Words = NDArray[np.uint64]
SETUP = struct.Struct("<6I")  # bits, packing, file
JOB = struct.Struct("<4Q")  # number of the first operand, shape of the rows, entries
LOADED = 512  # operands that a process holds: 200 MB


class Blind:
    """What a public key can do to ciphertexts of one ring."""

    def __init__(self, bits: int, words: Words) -> None:
        self.bits, self.context = bits, context_of(bits)
        ctx = self.context
        self.key = ctx.context.from_public_str(ctx.prefix[Form.KEY] + words.tobytes())
        self.encryptor = ctx.seal.Encryptor(ctx.context, self.key)

    def product(self, chunk: PlainRows, packing: Packing, operand: Callable[[int], Any], first: int) -> Any:
        """The bare sum of products, from operand `first` on; of all-zero rows a fresh zero: SEAL has none without randomness."""
        ctx, total = self.context, None
        for groups, table in packing.multipliers(chunk):
            for group, factor in zip(groups, factors(ctx, self.bits, table), strict=True):
                term = ctx.evaluator.multiply_plain(operand(first + group), factor)
                if total is None:
                    total = term
                else:
                    ctx.evaluator.add_inplace(total, term)
        if total is None:
            return self.encryptor.encrypt_zero()
        ctx.evaluator.transform_from_ntt_inplace(total)
        return total

    def cover(self, product: Any, cover: Words) -> None:
        """Add a plain polynomial."""
        self.context.evaluator.add_plain_inplace(product, self.context.plain(cover))

    def check(self, amplified: int) -> None:
        """Refuse rows so large that their noise would show through the flood."""
        noise = BFV_FRESH_NOISE * (amplified + 1)
        if N * noise << STATISTICAL_BITS > 2 << self.context.flood_bits:
            raise DataError(
                f"Expected rows whose noise a flood of {self.context.flood_bits} bits can drown, but they sum to "
                f"{amplified.bit_length()} bits; use fewer rows at once or a smaller fraction."
            )

    def sanitise(self, product: Any) -> None:
        """Add a fresh zero and the flood."""
        ctx = self.context
        ctx.evaluator.add_inplace(product, self.encryptor.encrypt_zero())
        drown = np.zeros((2, len(ctx.primes[Form.OPERAND]), N), np.uint64)
        drown[0] = flood(ctx.flood_bits, ctx.primes[Form.OPERAND], N)
        ctx.evaluator.add_inplace(product, ctx.cipher(ctx.first_prefix, drown))

    def finish(self, product: Any) -> None:
        """Sanitise, and switch down to one prime."""
        self.sanitise(product)
        self.context.evaluator.mod_switch_to_inplace(product, self.context.last)


@contextmanager
def shared(parts: Sequence[Any], wanted: Iterable[int]) -> Iterator[int]:
    """A file without a name, in memory where it can be: the wanted ciphertexts at their places, holes between."""
    with os.fdopen(os.memfd_create("operands"), "w+b") if hasattr(os, "memfd_create") else TemporaryFile() as file:
        for index in wanted:
            data = parts[index].to_string()
            file.seek(index * len(data))
            file.write(data)
        file.flush()
        yield file.fileno()


def pack_setup(bits: int, packing: Packing, file: int, words: Words) -> bytes:
    """What a process must know before its first job."""
    numbers = (bits, packing.rows, packing.columns, packing.degree, packing.group, file)
    return SETUP.pack(*numbers) + words.tobytes()


def pack_job(first: int, chunk: PlainRows, cover: Words) -> bytes:
    """Rows and what covers their product."""
    entries = (chunk.rows, chunk.columns, chunk.values)
    head = JOB.pack(first, *chunk.shape, len(chunk.values))
    return head + b"".join(part.astype(np.int64).tobytes() for part in entries) + cover.tobytes()


def serve(jobs: Iterator[bytes]) -> Iterator[bytes]:
    """In another process: from rows to the residues of a sanitised product."""
    setup = next(jobs)
    bits, *numbers, file = SETUP.unpack_from(setup)
    packing, context = Packing(*numbers), context_of(bits)
    blind = Blind(bits, np.frombuffer(setup, np.uint64, offset=SETUP.size))
    held = mmap.mmap(file, 0, access=mmap.ACCESS_READ)
    size = CIPHER_BYTES + 16 * len(context.primes[Form.OPERAND]) * N

    @lru_cache(LOADED)
    def operand(index: int) -> Any:
        found = context.seal.Ciphertext()
        found.load_bytes(context.context, held[index * size : (index + 1) * size])
        return found

    for job in jobs:
        first, rows, columns, entries = JOB.unpack_from(job)
        integers = np.frombuffer(job, np.int64, 3 * entries, JOB.size).reshape(3, entries)
        product = blind.product(PlainRows((rows, columns), *integers), packing, operand, first)
        blind.cover(product, np.frombuffer(job, np.uint64, offset=JOB.size + integers.nbytes))
        blind.finish(product)
        yield residues(product.to_string(), len(context.primes[Form.RESULT]), N).tobytes()
