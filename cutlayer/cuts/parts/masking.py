"""The two ends of X [W_mask]: who holds the key and W_mask, and who multiplies by it blind.

W_mask is drawn on a grid, so that it is exact in fixed point; what precision is left goes to the rows.
"""

import math

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from cutlayer.blocks.sparse import SparseRows
from cutlayer.crypto import Bfv, Encrypted, Paillier, Residues, Ring, Scheme
from cutlayer.errors import DataError, ProtocolError
from cutlayer.rng import numpy_generator

FINE = 8  # bits below the bound of W_mask: how finely it is drawn
SIZES = 1 << 20  # no layer is wider: what a peer says is checked before anything is allocated


def bound_of(inputs: int) -> float:
    """Largest size of an entry of W_mask: 2 / sqrt(inputs)."""
    return 2 / math.sqrt(inputs)


def places_of(inputs: int) -> int:
    """Bits behind the point of W_mask."""
    return FINE + max(0, math.ceil(-math.log2(bound_of(inputs))))


class Holder:
    """The key holder's end: W_mask, encrypted once; results are decrypted."""

    def __init__(self, scheme: Scheme, inputs: int, width: int, seed: int) -> None:
        if not (0 < inputs <= SIZES and 0 < width <= SIZES):
            raise ProtocolError(f"Expected a layer of at most {SIZES} inputs, got {inputs} by {width}.")
        self.secret = scheme.generate()
        places = places_of(inputs)
        most = math.floor(math.ldexp(bound_of(inputs), places))
        rng = numpy_generator(seed, "weight mask")
        self.weights: NDArray[np.int64] = rng.integers(-most, most + 1, (inputs, width))
        self.ring = scheme.ring

    def public(self) -> bytes:
        """The public key."""
        return self.secret.public.to_bytes()

    def operand(self, *, transposed: bool = False) -> bytes:
        """[W_mask], or its transpose for the backward pass."""
        weights = np.ascontiguousarray(self.weights.T) if transposed else self.weights
        return self.secret.encrypt(self.ring.wrap(weights)).to_bytes()

    def open(self, data: bytes, rows: int, *, transposed: bool = False) -> Residues:
        """Decrypt a masked product of some rows."""
        inputs, width = self.weights.shape
        of = (width, inputs) if transposed else (inputs, width)
        return self.secret.decrypt(self.secret.public.read_result(data, rows, of))


class Blind:
    """The label party's end: multiply rows by [W_mask] and take a fresh uniform mask off, all under encryption."""

    def __init__(self, scheme: Scheme, inputs: int, width: int, key: bytes, operand: bytes) -> None:
        self.ring, self.inputs, self.width = scheme.ring, inputs, width
        self.public = scheme.read_key(key)
        self.operand = self.public.read_operand(operand, (inputs, width))
        self.transpose: Encrypted | None = None

    def add_transpose(self, operand: bytes) -> None:
        """Take [W_mask^T], for the backward pass."""
        self.transpose = self.public.read_operand(operand, (self.width, self.inputs))

    def forward(self, rows: Tensor | SparseRows, most: float) -> tuple[bytes, Residues]:
        """X [W_mask] - mask, encrypted, and the mask. `most`: how large a product may be before sums wrap round."""
        refuse_large(_sums(rows) * bound_of(self.inputs), most)
        plain = self.ring.encode_rows(rows, self.ring.fraction - places_of(self.inputs))
        mask = self.ring.uniform((plain.shape[0], self.width))
        product = self.public.masked_product(plain, self.operand, self.ring.subtract(np.zeros_like(mask), mask))
        return product.to_bytes(), mask

    def backward(self, gradient: Tensor) -> tuple[bytes, Residues, int]:
        """delta [W_mask^T] + mask, encrypted, the mask, and the bits behind the point, chosen as fine as can be."""
        assert self.transpose is not None
        largest = float(gradient.abs().sum(dim=1).max()) * bound_of(self.inputs)
        behind = self.ring.bits - 2 - math.ceil(math.log2(max(largest, 2.0**-60)))
        behind = min(behind, 60) - places_of(self.inputs)
        plain = self.ring.encode_rows(gradient, min(behind, self.ring.bits - 2))
        mask = self.ring.uniform((plain.shape[0], self.inputs))
        product = self.public.masked_product(plain, self.transpose, mask)
        return product.to_bytes(), mask, min(behind, self.ring.bits - 2) + places_of(self.inputs)


def scheme_named(name: str, ring: Ring) -> Scheme:
    """bfv or paillier."""
    return Bfv(ring) if name == "bfv" else Paillier(ring)


def _sums(rows: Tensor | SparseRows) -> float:
    """The largest sum of sizes in a row."""
    if isinstance(rows, Tensor):
        return float(rows.detach().abs().sum(dim=1).max())
    sizes = np.add.reduceat(np.append(rows.values.abs().cpu().numpy(), 0.0), rows.offsets[:-1].cpu().numpy())
    return float(sizes[np.diff(rows.offsets.cpu().numpy()) > 0].max(initial=0.0))


def refuse_large(size: float, most: float) -> None:
    """Refuse what could make the sum wrap round."""
    if not size <= most:
        raise DataError(
            f"Expected embeddings of size {most:.0f} at most in the secure sum, which has no room for larger ones: "
            "scale the columns, or use bits=48."
        )
