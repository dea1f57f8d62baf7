"""Shares that cancel: for an id that every feature party holds, their shares XOR to zero.

Each pair of feature parties agrees on a seed (crypto/key_pair.py, bound to the salt). A party's share of an id is the
XOR, over its peers, of a keyed hash of the id (BLAKE2b under the pair's seed). In the XOR over *all* feature parties
every pair's hash comes up twice and cancels. The shares of all but one of them are independent and uniform to anyone
without a seed, so an id that one party lacks tells nothing about the others.
"""

from collections.abc import Iterable, Sequence
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]

VALUE = 16  # bytes
CONTEXT = b"cutlayer align"  # of the seeds, followed by the salt


def shares(ids: Sequence[bytes], seeds: Iterable[bytes]) -> Words:
    """A share of every id, 128 bits each."""
    total = np.zeros((len(ids), 2), np.uint64)
    for seed in seeds:
        hashed = b"".join([blake2b(id_, key=seed, digest_size=VALUE).digest() for id_ in ids])
        total ^= np.frombuffer(hashed, "<u8").reshape(-1, 2)
    return total
