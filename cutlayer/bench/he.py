"""The encrypted product of a secure sum: BFV with coefficient packing against Paillier in the package `phe`.

A batch of 256 rows times an encrypted 32x64 matrix (and 128x128) plus a mask: evaluate, sanitise, cross
as bytes, decrypt; core-seconds. `ratio` is the time of packed Paillier over ours at 32x64; at least 300 is
wanted, and 5,000 over one value per ciphertext, with at most 20 bytes per output.

`first_epoch_ratio` and `later_epoch_ratio` compare an epoch under the secure sum with one under an open sum;
later ones are wanted at 1.5 at most.

`seconds_blind_step` is a training step of blind-layer, forward and backward, with 256 rows, 32 columns and width 64,
both parties' work; `blind_step_ratio` is the same step with `scheme=paillier` (packed, 3072 bits), timed whole too,
over it: at least 100 is wanted.

`wide_encrypt_speedup` is the wall time on one core over that on all, to encrypt a matrix of 4,000x64. On a busy
machine it says little; `wide_encrypt_core_ratio` is all cores' work over one's.

`phe` (3072 bits, gmpy2) is timed on a few outputs and scaled linearly, as its work is the same for
every output; ours is timed whole. Packed `phe` holds as many values per plaintext as our own Paillier.
"""

import time
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import torch
from torch import nn

from cutlayer.bench.parts.blind_step import blind_step
from cutlayer.bench.parts.random_task import random_task
from cutlayer.bench.parts.timing import Figures, core_seconds
from cutlayer.blocks import cores
from cutlayer.crypto import Bfv, Residues, Ring
from cutlayer.crypto.needs import load
from cutlayer.crypto.parameters import PAILLIER_KEY_BITS
from cutlayer.crypto.slots import Slots
from cutlayer.cuts.secure_sum import SecureSum
from cutlayer.cuts.sum import Sum
from cutlayer.data.task import Features
from cutlayer.errors import ConfigError
from cutlayer.models.mlp import MLP
from cutlayer.plan import Plan, assemble
from cutlayer.progress import Progress, silent
from cutlayer.recipe import Recipe
from cutlayer.rng import generator, numpy_generator
from cutlayer.training import using_threads

BATCH, SHAPES = 256, ((32, 64), (128, 128))
WIDE = (4000, 64)
KEY_BITS = PAILLIER_KEY_BITS
SINGLES = 2  # outputs timed with one value per ciphertext


def numbers(ring: Ring, shape: tuple[int, int]) -> tuple[Residues, Residues]:
    """Standardised rows, and weights of the size the protocol draws, in fixed point."""
    rng = numpy_generator(0, "bench he")
    inner, columns = shape
    bound = 2 / np.sqrt(inner)
    rows, weights = rng.standard_normal((BATCH, inner)), rng.uniform(-bound, bound, (inner, columns))
    return ring.encode(rows), ring.encode(weights)


class Ours:
    """One step with BFV, checked against the plain product."""

    def __init__(self, ring: Ring, shape: tuple[int, int]) -> None:
        self.ring, self.shape = ring, shape
        self.rows, self.matrix = numbers(ring, shape)
        self.secret = Bfv(ring).generate()
        self.operand = self.secret.encrypt(self.matrix)
        self.bytes = 0

    def seconds(self) -> float:
        """Time of one step."""
        mask = self.ring.uniform((BATCH, self.shape[1]))
        start = time.process_time()
        reply = self.secret.public.masked_product(self.rows, self.operand, mask).to_bytes()
        opened = self.secret.decrypt(self.secret.public.read_result(reply, BATCH, self.shape))
        end = time.process_time()
        if not np.array_equal(opened, self.ring.add(self.ring.matmul(self.rows, self.matrix), mask)):
            raise ConfigError("The encrypted product differs from the plain one: do not trust this machine.")
        self.bytes = len(reply)
        return end - start


class PhePublicKey(Protocol):
    """What is used of a public key of `phe`, which has no types."""

    n: int
    nsquare: int

    def raw_encrypt(self, plaintext: int, r_value: int | None = None) -> int:
        """Encrypt a number below n."""
        ...


class PhePrivateKey(Protocol):
    """What is used of its private key."""

    def raw_decrypt(self, ciphertext: int) -> int:
        """Undo `raw_encrypt`."""
        ...


class PheNumber(Protocol):
    """What is used of its encrypted numbers."""

    def __mul__(self, other: int, /) -> "PheNumber": ...
    def __add__(self, other: "PheNumber | int", /) -> "PheNumber": ...

    def obfuscate(self) -> None:
        """Randomise it again."""
        ...

    def ciphertext(self) -> int:
        """Give the number that crosses."""
        ...


class Theirs:
    """A few outputs with `phe`: multiply and add, add the mask, randomise again, decrypt."""

    def __init__(self, ring: Ring, shape: tuple[int, int], keys: tuple[PhePublicKey, PhePrivateKey]) -> None:
        self.ring, (self.public, self.private) = ring, keys
        rows, matrix = numbers(ring, shape)
        self.row = [int(value) for value in ring.centred(rows[0])]
        self.zero = self.public.raw_encrypt(0)
        self.slots = Slots(ring, KEY_BITS, shape[0])
        signed = ring.centred(matrix)
        self.packed = [[self._encrypt(plain) for plain in self.slots.fill(row)] for row in signed]
        self.single = [[self._encrypt(int(value)) for value in row[:SINGLES]] for row in signed]
        self.packed_outputs = BATCH * self.slots.across(shape[1])
        self.single_outputs = BATCH * shape[1]

    def _encrypt(self, number: int) -> PheNumber:
        # One fresh zero serves all operands, which makes the setting up quick; products cost the same.
        cipher = self.public.raw_encrypt(number % self.public.n, r_value=1) * self.zero % self.public.nsquare
        encrypted: PheNumber = load("phe").EncryptedNumber(self.public, int(cipher), 0)
        return encrypted

    def seconds(self, columns: Sequence[Sequence[PheNumber]], outputs: int) -> float:
        """Time of all outputs, from those of one row."""
        covers = list(self.slots.cover(self.ring.uniform((len(columns[0]) * self.slots.each,))))
        start = time.process_time()
        for index, cover in enumerate(covers):
            total = columns[0][index] * self.row[0]
            for encrypted, value in zip(columns[1:], self.row[1:], strict=True):
                total = total + encrypted[index] * value
            total = total + cover
            total.obfuscate()
            self.private.raw_decrypt(total.ciphertext())
        return (time.process_time() - start) / len(covers) * outputs


def measure(repeats: int, progress: Progress = silent) -> Figures:
    """Interleave all sides `repeats` times and compare the fastest turns."""
    ring = Ring()
    try:
        keys = load("phe").generate_paillier_keypair(n_length=KEY_BITS)
    except ConfigError as error:
        raise ConfigError("This benchmark compares with the package 'phe': pip install phe gmpy2.") from error
    result: Figures = {}
    turns = len(SHAPES) * (repeats + 1)
    for number, shape in enumerate(SHAPES):
        ours, theirs = Ours(ring, shape), Theirs(ring, shape, keys)
        best = dict.fromkeys(("bfv", "phe_packed", "phe_single"), float("inf"))
        for turn in range(repeats + 1):  # the first turn warms up
            seconds = {
                "bfv": ours.seconds(),
                "phe_packed": theirs.seconds(theirs.packed, theirs.packed_outputs),
                "phe_single": theirs.seconds(theirs.single, theirs.single_outputs),
            }
            if turn:
                best = {name: min(best[name], seconds[name]) for name in best}
            progress(number * (repeats + 1) + turn + 1, turns, "")
        name = "x".join(map(str, shape))
        result |= {
            f"ratio_packed_{name}": best["phe_packed"] / best["bfv"],
            f"ratio_single_{name}": best["phe_single"] / best["bfv"],
            f"bytes_per_output_{name}": ours.bytes / (BATCH * shape[1]),
            **{f"seconds_{side}_{name}": value for side, value in best.items()},
        }
    return {
        "ratio": result[f"ratio_packed_{'x'.join(map(str, SHAPES[0]))}"],
        **result,
        **blind_step(repeats),
        **wide(repeats),
        **epochs(repeats),
    }


def wide(repeats: int) -> Figures:
    """Encrypt a wide layer on one core and on all, the fastest of some turns each."""
    ring, most = Ring(), cores.count()
    secret, matrix = Bfv(ring).generate(), ring.uniform(WIDE)
    spent: dict[int, list[tuple[float, float]]] = {1: [], most: []}
    for number in (1, most) * repeats:
        start, used = time.perf_counter(), core_seconds()
        with cores.at_most(number):
            operand = secret.encrypt(matrix)
        spent[number].append((time.perf_counter() - start, core_seconds() - used))
        if not np.array_equal(secret.decrypt(operand), matrix):
            raise ConfigError("The encrypted matrix differs from the plain one: do not trust this machine.")
    alone, together = (np.array(spent[number]).min(axis=0).tolist() for number in (1, most))
    return {
        "cores": most,
        "wide_encrypt_speedup": alone[0] / together[0],
        "wide_encrypt_core_ratio": together[1] / alone[1],
        "wide_encrypt_seconds_one_core": alone[0],
    }


def epochs(repeats: int) -> dict[str, float]:
    """An epoch of training under the secure sum over one under an open sum: the first, and the fastest later one.

    4,096 rows, 32 columns each, a first layer of 64 and three layers of 256 after it (batch norm, dropout).
    """
    rng = generator(0, "bench he")
    columns = {name: torch.randn(4096, 32, generator=rng) for name in ("a", "b")}
    task = random_task(columns, 2, rng, label_party="a", test=torch.arange(64))

    def top(inputs: int, outputs: int) -> nn.Module:
        return MLP(inputs, [256, 256, 256, outputs], first_activation=True, batch_norm=True, dropout=0.3)

    def bottom(features: Features, width: int) -> nn.Module:
        return MLP(32, [width], bias=False)

    common: dict[str, Any] = {"bottoms": bottom, "top": top, "width": 64, "recipe": Recipe(batch_size=BATCH)}
    sides = [assemble(task, Plan(cut=cut, **common), lambda message: None) for cut in (Sum(), SecureSum())]
    spent: list[list[float]] = [[], []]
    with using_threads(1):
        for epoch in range(repeats + 1):
            for seconds, session in zip(spent, sides, strict=True):
                start = time.process_time()
                session.train_epoch(epoch, task.train)
                seconds.append(time.process_time() - start)
    plain, secure = spent
    return {"first_epoch_ratio": secure[0] / plain[0], "later_epoch_ratio": min(secure[1:]) / min(plain[1:])}
