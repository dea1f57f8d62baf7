"""The ends of a blind layer: who holds columns, and who holds the key and the gradient. Neither holds the weights.

W = U + V, U at a feature party with columns X, V at the label party, which has the key:

    forward    X [V] + X U + what hides it    the label party opens its part of a sum
    backward   X^T [lr delta] + phi           the label party opens its share of W's step; -phi is the other
"""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from cutlayer.crypto import PublicKey, Residues, SecretKey
from cutlayer.cuts.parts.halves import RING, descend
from cutlayer.cuts.parts.memory import Memory
from cutlayer.cuts.parts.shares import Shares
from cutlayer.errors import DataError

OWN = "own"  # the label party's block of weights: its half, and at the first feature party the other one


class ColumnsEnd:
    """A feature party's end, with its half U in `memory`."""

    def __init__(self, public: PublicKey, memory: Memory, name: str, momentum: float) -> None:
        self.public, self.memory, self.name, self.momentum = public, memory, name, momentum

    def forward(self, data: bytes, columns: Residues, added: Iterable[Residues]) -> bytes:
        """From [V] to X (U + V) and what is added, encrypted: one number per row and unit for the label party."""
        half = self.memory.find(self.name)
        assert half is not None
        operand = self.public.read_operand(data, half.shape, for_rows=len(columns))
        cover = RING.sum([RING.matmul(RING.centred(columns), half), *added])
        return self.public.masked_product(columns, operand, cover).to_bytes()

    def backward(self, data: bytes, columns: Residues, width: int) -> bytes:
        """From [lr delta] to X^T lr delta + phi, encrypted, with a fresh uniform phi; step U by the other share."""
        turned = np.ascontiguousarray(columns.T)
        operand = self.public.read_operand(data, (len(columns), width), for_rows=len(turned))
        phi = RING.uniform((len(turned), width))
        product = self.public.masked_product(turned, operand, phi).to_bytes()
        descend(self.memory, self.name, RING.subtract(np.zeros_like(phi), phi), self.momentum)
        return product


class GradientEnd:
    """The label party's end for one feature party, with its half V in `memory`."""

    def __init__(self, secret: SecretKey, memory: Memory, name: str, momentum: float) -> None:
        self.secret, self.memory, self.name, self.momentum = secret, memory, name, momentum

    @property
    def half(self) -> Residues:
        """V, as it is now."""
        half = self.memory.find(self.name)
        assert half is not None
        return half

    def operand(self, rows: int) -> bytes:
        """[V], for one batch."""
        return self.secret.encrypt(self.half, for_rows=rows).to_bytes()

    def open(self, data: bytes, rows: int) -> Residues:
        """The party's part of the sums."""
        return self.secret.decrypt(self.secret.public.read_result(data, rows, self.half.shape, for_rows=rows))

    def step(self, data: bytes, rows: int) -> None:
        """Step V by this share of W's step."""
        inputs, width = self.half.shape
        result = self.secret.public.read_result(data, inputs, (rows, width), for_rows=inputs)
        descend(self.memory, self.name, self.secret.decrypt(result), self.momentum)


class OwnBlock:
    """The label party's own columns: it multiplies them blind by the half of its weights that it does not hold.

    That half never changes, and neither do the columns, so each row needs this once and its share is kept.
    """

    def __init__(self, public: PublicKey, operand: bytes, inputs: int, width: int) -> None:
        self.public, self.shares, self.kept = public, Shares(), Shares()
        self.operand = public.read_operand(operand, (inputs, width))

    def multiply(self, rows: NDArray[np.int64], columns: Residues) -> bytes | None:
        """X [V] - mask of the rows that come for the first time, encrypted; None if there are none."""
        places = self.shares.missing(rows)
        if len(places):
            self.kept.add(rows[places], columns[places])
        if not np.array_equal(self.kept.of(rows), columns):
            raise DataError(
                "Expected the label party's columns of a row to stay as they are under blind-layer: sums that differ "
                "in them alone give its hidden weights away. Leave out what changes them from batch to batch."
            )
        if not len(places):
            return None
        mask = RING.uniform((len(places), self.operand.shape[1]))
        self.shares.add(rows[places], mask)
        return self.public.masked_product(columns[places], self.operand, RING.wrap(-mask)).to_bytes()


class OwnKey:
    """The first feature party's end of the same: the other half of the label party's weights, and a key for it."""

    def __init__(self, secret: SecretKey, half: Residues) -> None:
        self.secret, self.half, self.shares = secret, half, Shares()

    def hello(self) -> tuple[bytes, bytes]:
        """The public key, and the half under it."""
        return self.secret.public.to_bytes(), self.secret.encrypt(self.half).to_bytes()

    def expects(self, rows: NDArray[np.int64]) -> bool:
        """Whether the label party has something to send for these rows."""
        return bool(len(self.shares.missing(rows)))

    def open(self, data: bytes, rows: NDArray[np.int64]) -> None:
        """Decrypt the shares of the rows that came for the first time."""
        places: Sequence[np.intp] = list(self.shares.missing(rows))
        result = self.secret.public.read_result(data, len(places), self.half.shape)
        self.shares.add(rows[places], self.secret.decrypt(result))
