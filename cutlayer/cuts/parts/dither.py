"""Dither: noise below the rounding of an embedding, so that the lowest bits of a sum say nothing.

An embedding is float32. In a finer fixed point its lowest bits are zero, and those of the sum are then the mask's
alone: whoever knows the rows behind the mask solves for it modulo a power of two. So noise fills the cell that
an embedding was rounded to, its last place in float32, and at least a cell of 2^places units, which is what the
rounding of the other factor costs anyway. The lowest `places` bits of the result are exactly uniform.

The noise follows from the row's whole embedding and the column by a block cipher. The same embedding gets the same
noise whenever it is asked for, so asking again does not average it away.
"""

import hashlib

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cutlayer.crypto import Residues, Ring
from cutlayer.crypto.needs import load
from cutlayer.draws import KEY, Draws

CIPHERS = "cryptography.hazmat.primitives.ciphers"
DIGITS = 24  # significant bits of float32


class Dither:
    """Noise on embeddings in a ring, from one party's private seed."""

    def __init__(self, ring: Ring, places: int, seed: int) -> None:
        self.ring, self.places = ring, places
        ciphers = load(CIPHERS)
        key = Draws(seed, "cut", "dither").bytes(KEY)
        self._cipher = ciphers.Cipher(ciphers.algorithms.AES(key), ciphers.modes.ECB())

    def of(self, embedding: Tensor) -> Residues:
        """The noise to add to an encoded embedding: uniform over each number's cell, in the ring."""
        numbers = np.ascontiguousarray(embedding.detach().to("cpu", torch.float32).numpy())
        last_place = np.frexp(numbers)[1] - DIGITS + self.ring.fraction  # log2 of it, in units of the ring
        cell = np.left_shift(np.int64(1), np.maximum(last_place, self.places).astype(np.int64))
        return self.ring.wrap((self._words(numbers) & (cell - 1)) - (cell >> 1))

    def _words(self, numbers: NDArray[np.float32]) -> Residues:
        """64 random bits for each number: a print of its row and its column, encrypted."""
        prints = [hashlib.blake2b(row.tobytes(), digest_size=8).digest() for row in numbers]
        blocks = np.empty((*numbers.shape, 2), "<u8")
        blocks[..., 0] = np.frombuffer(b"".join(prints), "<u8")[:, None]
        blocks[..., 1] = np.arange(numbers.shape[1])
        stream = self._cipher.encryptor().update(blocks.tobytes())
        return np.frombuffer(stream, "<i8").reshape(blocks.shape)[..., 0].astype(np.int64)
