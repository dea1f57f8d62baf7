"""Stretch: a party's seed into as many uniform numbers of the ring as a cut needs."""

import math
from collections.abc import Sequence

from cutlayer.crypto import Residues, Ring
from cutlayer.draws import Draws
from cutlayer.rng import SECRET, secret_seed


def stretch(seed: int, purpose: str, step: int, shape: Sequence[int], bits: int) -> Residues:
    """Signed numbers of `bits` bits, uniform, from a private seed: nobody else foresees them, and runs repeat."""
    ring = Ring(bits, 0)
    stream = Draws(seed, "cut", purpose, step).bytes(math.prod(shape) * ring.bytes_each)
    return ring.centred(ring.from_stream(stream, shape))


def once_only(seed: int) -> int:
    """A seed for numbers that must never be used twice, whatever step a peer makes us go back to.

    A secret seed outlives a process, so in a deployment another one is drawn from the operating system each time.
    A simulation's seed is no secret, and is kept: there is nobody to hide from, and runs repeat.
    """
    return secret_seed() if seed >= SECRET else seed
