"""A polynomial with fresh noise on it, ready to be hidden: the part of an encryption that needs no key.

A ciphertext is (m + e - b s, b): only `b s` takes the secret s. SEAL draws e where it encrypts, so here it
encrypts under a key of zeros, and what it calls c0 is m + e. Anybody may do that who knows m; so may other processes.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from cutlayer.crypto import layout
from cutlayer.crypto.context import N, context_of
from cutlayer.crypto.envelope import CipherForm

Words = NDArray[np.uint64]


class Noisy:
    """m + e for one ring."""

    def __init__(self, bits: int) -> None:
        self.context = ctx = context_of(bits)
        count = len(ctx.primes[CipherForm.KEY]) * N
        level = ctx.context.key_context_data().parms_id()
        zeros = ctx.context.from_secret_str(layout.plain_prefix(count, level) + bytes(8 * count))
        self.encryptor = ctx.seal.Encryptor(ctx.context, zeros)

    def words(self, polynomial: Words) -> Words:
        """The residues of m + e in NTT form: prime x coefficient."""
        ctx = self.context
        cipher = self.encryptor.encrypt_symmetric(ctx.plain(polynomial))
        ctx.evaluator.transform_to_ntt_inplace(cipher)
        words: Words = layout.residues(cipher.to_string(), len(ctx.primes[CipherForm.OPERAND]), N)[0]
        return words


def serve(jobs: Iterator[bytes]) -> Iterator[bytes]:
    """In another process: from polynomials to words."""
    noisy = Noisy(int.from_bytes(next(jobs), "little"))
    for job in jobs:
        yield noisy.words(np.frombuffer(job, np.uint64)).tobytes()
