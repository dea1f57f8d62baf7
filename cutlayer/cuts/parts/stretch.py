"""Stretch: a party's seed into as many uniform numbers as a cut needs, by a cryptographic hash."""

import hashlib
import math
from collections.abc import Sequence

from cutlayer.crypto import Residues, Ring
from cutlayer.rng import SECRET, secret_seed


def stretch(seed: int, purpose: str, step: int, shape: Sequence[int], bits: int) -> Residues:
    """Signed numbers of `bits` bits, uniform, from a private seed: nobody else foresees them, and runs repeat."""
    ring = Ring(bits, 0)
    stream = hashlib.shake_256(f"cutlayer/{seed}/{purpose}/{step}".encode())
    return ring.centred(ring.from_stream(stream.digest(math.prod(shape) * ring.bytes_each), shape))


def once_only(seed: int) -> int:
    """A seed for numbers that must never be used twice, whatever step a peer makes us go back to.

    A secret seed outlives a process, so in a deployment another one is drawn from the operating system each time.
    A simulation's seed is no secret, and is kept: there is nobody to hide from, and runs repeat.
    """
    return secret_seed() if seed >= SECRET else seed
