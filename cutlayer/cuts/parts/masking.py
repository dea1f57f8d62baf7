"""The two ends of X [W_mask]: who holds the key and W_mask, and who multiplies by it blind.

W_mask is drawn on a grid, so that it is exact in fixed point; what precision is left goes to the rows.
"""

import math

import numpy as np
from torch import Tensor

from cutlayer.blocks.sparse import SparseRows
from cutlayer.crypto import Bfv, Paillier, Residues, Ring, Scheme
from cutlayer.cuts.parts.dither import Dither
from cutlayer.cuts.parts.stretch import stretch
from cutlayer.errors import DataError, ProtocolError

FINE = 8  # bits below the bound of W_mask: how finely it is drawn
SIZES = 1 << 20  # no layer is wider: what a peer says is checked before anything is allocated
DRAWN = 48  # bits of a draw that becomes an entry of W_mask: none is then likelier than another by more than 2^-38


def bound_of(inputs: int) -> float:
    """Largest size of an entry of W_mask: 2 / sqrt(inputs)."""
    return 2 / math.sqrt(inputs)


def places_of(inputs: int) -> int:
    """Bits behind the point of W_mask."""
    return FINE + max(0, math.ceil(-math.log2(bound_of(inputs))))


def draw_mask(inputs: int, width: int, seed: int) -> Residues:
    """W_mask, signed, in units of its grid: uniform within its bound."""
    most = math.floor(math.ldexp(bound_of(inputs), places_of(inputs)))
    draws = stretch(seed, "weight mask", 0, (inputs, width), DRAWN) + (1 << (DRAWN - 1))
    return draws % (2 * most + 1) - most


class Holder:
    """The key holder's end: W_mask, encrypted once; results are decrypted; its own embeddings get a dither."""

    def __init__(self, scheme: Scheme, inputs: int, width: int, seed: int) -> None:
        if not (0 < inputs <= SIZES and 0 < width <= SIZES):
            raise ProtocolError(f"Expected a layer of at most {SIZES} inputs, got {inputs} by {width}.")
        self.secret = scheme.generate()
        self.weights = draw_mask(inputs, width, seed)
        self.ring = scheme.ring
        self.dither = Dither(self.ring, places_of(inputs), seed)

    def public(self) -> bytes:
        """The public key."""
        return self.secret.public.to_bytes()

    def operand(self) -> bytes:
        """[W_mask]."""
        return self.secret.encrypt(self.ring.wrap(self.weights)).to_bytes()

    def open(self, data: bytes, rows: int) -> Residues:
        """Decrypt a masked product of some rows."""
        inputs, width = self.weights.shape
        return self.secret.decrypt(self.secret.public.read_result(data, rows, (inputs, width)))

    def blurred(self, encoded: Residues, embedding: Tensor) -> Residues:
        """The holder's embedding, encoded, with noise below its rounding: else its low bits would show the mask's."""
        return self.ring.add(encoded, self.dither.of(embedding))


class Blind:
    """The label party's end: multiply rows by [W_mask] and take a fresh uniform mask off, all under encryption."""

    def __init__(self, scheme: Scheme, inputs: int, width: int, key: bytes, operand: bytes) -> None:
        self.ring, self.inputs, self.width = scheme.ring, inputs, width
        self.public = scheme.read_key(key)
        self.operand = self.public.read_operand(operand, (inputs, width))

    def forward(self, rows: Tensor | SparseRows, most: float) -> tuple[bytes, Residues]:
        """X [W_mask] - mask, encrypted, and the mask. `most`: how large a product may be before sums wrap round."""
        refuse_large(_sums(rows) * bound_of(self.inputs), most)
        plain = self.ring.encode_rows(rows, self.ring.fraction - places_of(self.inputs))
        mask = self.ring.uniform((plain.shape[0], self.width))
        product = self.public.masked_product(plain, self.operand, self.ring.subtract(np.zeros_like(mask), mask))
        return product.to_bytes(), mask


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
