"""Draws: random numbers that nobody can foresee, from a cipher. All that protects somebody is drawn here.

torch draws by Mersenne Twister on a CPU: whoever knows what some noise was added to sees its numbers, solves for
the state of the generator (in a minute, docs/explanation-breaks.md) and takes the rest of the noise off. Here a key
is stretched by AES-256 in counter mode, so numbers that were seen tell nothing of the others, before or after. The
key follows from a seed: one of the operating system's in a deployment, the run's own in a simulation, which
therefore repeats bit for bit. Numbers are drawn on the CPU, whatever the models run on, so they repeat on a GPU too.

A continuous Gaussian in floating point gives itself away: which numbers a sum can be depends on what the noise was
added to (Mironov, CCS 2012). `discrete_normal` draws whole numbers, exactly Gaussian on a grid; see there.
"""

import hashlib
import math
from collections.abc import Sequence
from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

BLOCK = 16  # bytes of an AES block
KEY = 32
DEVIATION, SCALE = 1024, 128  # of the two discrete Gaussians, coarse and fine, that make up one
STEPS = DEVIATION * math.sqrt(SCALE**2 + 1)  # standard deviation of `discrete_normal`, about 131,076
CELLS = 1 << 15  # of the table that a discrete Gaussian is drawn from
LOW = 64 - 15  # bits of a word that choose within a cell
FINE = 192  # bits of fixed point in which the table is computed

Words = NDArray[np.uint64]


class Draws:
    """One stream of random numbers, derived from a seed and a path of names."""

    def __init__(self, seed: int, *names: str | int) -> None:
        text = "/".join(["cutlayer draws", str(seed), *map(str, names)])
        self._begin(hashlib.sha256(text.encode()).digest(), 0)

    def _begin(self, key: bytes, block: int) -> None:
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

        self._key, self._block = key, block
        self._cipher = Cipher(algorithms.AES(key), modes.CTR(block.to_bytes(BLOCK, "big"))).encryptor()

    def bytes(self, count: int) -> bytes:
        """Random bytes. What is left of the last block is thrown away."""
        blocks = -(-count // BLOCK)
        self._block += blocks
        return self._cipher.update(bytes(blocks * BLOCK))[:count]

    def words(self, count: int) -> Words:
        """Random words of 64 bits."""
        return np.frombuffer(self.bytes(8 * count), "<u8")

    def child(self) -> "Draws":
        """A stream of its own, keyed by the next numbers of this one."""
        child = Draws.__new__(Draws)
        child._begin(self.bytes(KEY), 0)
        return child

    def uniform(self, shape: Sequence[int]) -> Tensor:
        """Multiples of 2^-53 from 0 to below 1, as float64."""
        words = self.words(math.prod(shape)) >> np.uint64(11)
        return torch.from_numpy(words.astype(np.float64) * 2.0**-53).view(tuple(shape))

    def integers(self, most: int, shape: Sequence[int] = ()) -> Tensor:
        """Whole numbers from 0 to below `most` (up to 2^32); none is likelier than another by more than 2^-32."""
        words = self.words(math.prod(shape)) % np.uint64(most)
        return torch.from_numpy(words.astype(np.int64)).view(tuple(shape))

    def permutation(self, count: int) -> Tensor:
        """The numbers from 0 to below `count` in random order."""
        return torch.from_numpy(np.argsort(self.words(count), kind="stable"))

    def normal(self, shape: Sequence[int]) -> Tensor:
        """Standard normal numbers, as float64: for noise without a guarantee."""
        return torch.erfinv(2 * self.uniform(shape) - (1 - 2.0**-53)) * math.sqrt(2)

    def exponential(self, shape: Sequence[int]) -> Tensor:
        """Exponential numbers of mean 1, as float64."""
        return -torch.log1p(-self.uniform(shape))

    def laplace(self, shape: Sequence[int]) -> Tensor:
        """Laplace numbers of scale 1, as float64: the difference of two exponentials."""
        return self.exponential(shape) - self.exponential(shape)

    def discrete_normal(self, shape: Sequence[int]) -> Tensor:
        """Whole numbers of the discrete Gaussian with standard deviation STEPS, as int64.

        P(x) is proportional to exp(-x^2 / (2 STEPS^2)). It is SCALE times a discrete Gaussian of DEVIATION plus another
        of them: that sum is a discrete Gaussian of STEPS but for a part of exp(-2 pi^2 (DEVIATION / SCALE)^2), below
        2^-1800 (Micciancio and Walter, CRYPTO 2017). Each is drawn from a table of probabilities that are multiples of
        2^-64, at a statistical distance below 2^-49.
        """
        count = math.prod(shape)
        thresholds, values, aliases = _table()
        words = self.words(2 * count)
        cells = (words >> np.uint64(LOW)).astype(np.intp)
        inside = (words & np.uint64((1 << LOW) - 1)) < thresholds[cells]
        drawn = np.where(inside, values[cells], aliases[cells])
        return torch.from_numpy(SCALE * drawn[:count] + drawn[count:]).view(tuple(shape))

    @property
    def state(self) -> Tensor:
        """Key and position, for checkpoints: as secret as what is drawn."""
        return torch.frombuffer(bytearray(self._key + self._block.to_bytes(BLOCK, "big")), dtype=torch.uint8)

    @state.setter
    def state(self, value: Tensor) -> None:
        state = value.numpy().tobytes()
        self._begin(state[:KEY], int.from_bytes(state[KEY:], "big"))

    def __deepcopy__(self, memo: dict[int, object]) -> "Draws":
        """Another stream at the same position."""
        copy = Draws.__new__(Draws)
        copy.state = self.state
        return copy

    def __repr__(self) -> str:
        return f"Draws(at block {self._block})"


@cache
def _table() -> tuple[Words, NDArray[np.int64], NDArray[np.int64]]:
    """Walker's alias table of the discrete Gaussian of DEVIATION: thresholds, and the two values of each cell.

    Whole numbers throughout, so every machine has the same table.
    """
    weights = _weights()
    reach = len(weights) // 2
    numbers = list(range(-reach, reach + 1)) + [0] * (CELLS - len(weights))
    weights += [0] * (CELLS - len(weights))
    room = 1 << LOW
    small = [cell for cell, weight in enumerate(weights) if weight < room]
    large = [cell for cell, weight in enumerate(weights) if weight >= room]
    aliases = list(range(CELLS))
    thresholds = [min(weight, room) for weight in weights]
    while small and large:
        cell, giver = small.pop(), large[-1]
        aliases[cell] = giver
        weights[giver] -= room - weights[cell]
        thresholds[giver] = min(weights[giver], room)
        if weights[giver] < room:
            small.append(large.pop())
    values = np.array(numbers, np.int64)
    return np.array(thresholds, np.uint64), values, values[np.array(aliases)]


def _weights() -> list[int]:
    """2^64 times the probabilities of -reach to reach, as whole numbers that sum to 2^64 exactly.

    exp(-x^2 / (2 s^2)) by recurrence: each is the one before times q^(2x + 1), with q = exp(-1 / (2 s^2)).
    """
    one = 1 << FINE
    q, term = one, one
    for order in range(1, 12):
        term = -term // (order * 2 * DEVIATION**2)
        q += term
    masses, factor = [one], q
    while masses[-1] >> (FINE - 70):  # beyond, less than 2^-70 of the largest
        masses.append(masses[-1] * factor >> FINE)
        factor = factor * q * q >> 2 * FINE
    total = masses[0] + 2 * sum(masses[1:])
    side = [(mass << 64) // total for mass in masses[1:]]
    return [*reversed(side), (1 << 64) - 2 * sum(side), *side]
