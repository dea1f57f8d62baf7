"""The two ends of an encrypted layer: who holds the key and the noise, and who multiplies by its part of W blind.

Every product is `plain rows @ [matrix]` in the ring, so its factors are turned to fit:

    start       P [F] + U                   (inputs x mixed) (mixed x width), once: see layer_start
    forward     W~^T [alpha^T] + mask       (width x inputs) (inputs x rows)
    weights     delta^T [alpha] + mask      (width x rows)   (rows x inputs)
    gradient    delta [N^T] + delta W~^T    (rows x width)   (width x inputs)

What is opened in the end, alpha W and delta W^T, would be exact products of integers, and those of a few
unknown factors can be taken apart again (a greatest common divisor for width 1, lattices beyond). So
the party that opens a result to the other blurs it first, by as much as the rounding of its own factor does.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cutlayer.crypto import Encrypted, PublicKey, Residues, Ring, Scheme
from cutlayer.cuts.parts.layer_start import mixed, signs, small_numbers
from cutlayer.cuts.parts.stretch import stretch
from cutlayer.errors import DataError

MOST = 128  # how large a number of an embedding may be
DROWNED = 1 << 12  # full numbers of 40 bits that may be multiplied at once before BFV's flood is too small


@dataclass(frozen=True, slots=True)
class Places:
    """Bits behind the point, for one ring. A gradient has log2(rows) more: it carries the 1/rows of the mean loss."""

    embedding: int
    weights: int
    delta: int
    coarse: int  # an embedding again, in the weights' gradient, where rounding averages out over the batch
    product: int  # the weights' gradient, for batches of up to 256; the noise on it is the larger the fewer they are


PLACES = {40: Places(13, 18, 14, 8, 26), 48: Places(16, 22, 18, 12, 34)}


@dataclass(frozen=True, slots=True)
class Terms:
    """What both ends know: the ring, the layer's size and learning rate. All else follows."""

    ring: Ring
    inputs: int
    width: int
    lr: float

    @property
    def places(self) -> Places:
        """Bits behind the point."""
        return PLACES[self.ring.bits]

    @property
    def digits(self) -> int:
        """In how many digits W~ is multiplied: it fills the ring, which can be too much for BFV's flood to hide."""
        return 1 if self.ring.bits == 40 and self.inputs * self.width < DROWNED else 2

    @property
    def base(self) -> int:
        """log2 of a digit's base."""
        return self.ring.bits // 2

    @property
    def noise_bits(self) -> int:
        """Bits of noise on the weights' gradient: half the ring. That gradient must fit the other half."""
        return self.ring.bits - 1

    def product(self, rows: int) -> int:
        """Bits behind the point of the weights' gradient."""
        return self.places.product + max(0, _log2(rows) - 8)

    def step(self, gradient: Residues, rows: int) -> Residues:
        """The learning rate times signed numbers on the gradient's grid, rounded to the weights' grid."""
        scale = math.ldexp(self.lr, self.places.weights - self.product(rows))
        return np.rint(scale * gradient.astype(np.float64)).astype(np.int64)

    def fits(self, residues: Residues, what: str) -> NDArray[np.int64]:
        """Signed numbers; refuse those in the outer half of the ring, where they are about to wrap round, or have."""
        numbers = self.ring.centred(residues)
        if numbers.size and int(np.abs(numbers).max()) > self.ring.modulus >> 2:
            raise DataError(
                f"Expected {what} that fits the {self.ring.bits} bits of the encrypted layer, which it outgrew: "
                "use a smaller lr, scale the columns, or use bits=48."
            )
        return numbers


class NoiseEnd:
    """A feature party's end: its key, and N, the noise that it has added to the weights so far."""

    def __init__(self, scheme: Scheme, terms: Terms, seed: int) -> None:
        self.ring, self.terms, self.seed = scheme.ring, terms, seed
        self.noise: Residues = np.zeros((terms.inputs, terms.width), np.int64)
        self.secret = scheme.generate()

    def factor(self) -> bytes:
        """[F], this side's part in the start of W."""
        terms = self.terms
        small = small_numbers(terms.inputs, terms.width, terms.places.weights, self.seed)
        return self.secret.encrypt(self.ring.wrap(small), for_rows=terms.inputs).to_bytes()

    def begin(self, data: bytes) -> Residues:
        """From P F + U, encrypted, to N as it starts."""
        terms = self.terms
        self.noise = self._open(data, terms.inputs, (mixed(terms.inputs, terms.width), terms.width), terms.inputs)
        return self.noise

    def forward(self, embedding: Tensor) -> bytes:
        """[alpha^T], once for every digit of W~."""
        alpha, terms = self._encode(embedding, self.terms.places.embedding).T, self.terms
        stacked = [self.ring.wrap(alpha << (digit * terms.base)) for digit in range(terms.digits)]
        return self.secret.encrypt(np.concatenate(stacked), for_rows=terms.width).to_bytes()

    def complete(self, data: bytes, embedding: Tensor, step: int) -> Residues:
        """From alpha W~ + mask, encrypted, to alpha W + mask, blurred."""
        alpha, terms = self._encode(embedding, self.terms.places.embedding), self.terms
        opened = self._open(data, terms.width, (terms.digits * terms.inputs, len(alpha))).T
        blur = stretch(self.seed, "blur", step, opened.shape, terms.places.weights)
        return self.ring.sum([opened, self.ring.matmul(alpha, self.noise), blur])

    def operand(self, embedding: Tensor) -> bytes:
        """[alpha], for the weights' gradient."""
        alpha = self._encode(embedding, self.terms.places.coarse)
        return self.secret.encrypt(alpha, for_rows=self.terms.width).to_bytes()

    def disturb(self, data: bytes, rows: int, step: int) -> tuple[Residues, Residues]:
        """From alpha^T delta + mask, encrypted, to the same with fresh noise n / lr; and N + n, to keep afterwards."""
        terms = self.terms
        opened = self._open(data, terms.width, (rows, terms.inputs)).T
        fresh = stretch(self.seed, "noise", step, opened.shape, terms.noise_bits)
        return self.ring.add(opened, fresh), self.ring.add(self.noise, terms.step(fresh, rows))

    def encrypted_noise(self, rows: int) -> bytes:
        """[N^T], as it is now."""
        return self.secret.encrypt(np.ascontiguousarray(self.noise.T), for_rows=rows).to_bytes()

    def gradient(self, data: bytes, rows: int) -> Tensor:
        """delta W^T: the gradient of the embedding."""
        terms, places = self.terms, self.terms.places
        opened = self._open(data, rows, (terms.width, terms.inputs), for_rows=rows)
        numbers = terms.fits(opened, "a gradient")
        return torch.from_numpy(np.ldexp(numbers.astype(np.float64), -(places.delta + _log2(rows) + places.weights)))

    def _encode(self, embedding: Tensor, places: int) -> Residues:
        if not bool((embedding.abs() <= MOST).all()):
            raise DataError(
                f"Expected embeddings within {MOST} of zero for the encrypted layer, which has no room for "
                "larger ones: scale the columns, or end the bottom in tanh."
            )
        return self.ring.encode(embedding, places)

    def _open(self, data: bytes, rows: int, of: tuple[int, int], for_rows: int | None = None) -> Residues:
        public, met = self.secret.public, self.terms.width if for_rows is None else for_rows
        return self.secret.decrypt(public.read_result(data, rows, of, for_rows=met))


class WeightsEnd:
    """The label party's end: W~ = W - N, and the feature party's public key."""

    def __init__(self, public: PublicKey, terms: Terms, seed: int) -> None:
        self.ring, self.public, self.terms, self.seed = public.ring, public, terms, seed
        self.weights: Residues = np.zeros((terms.inputs, terms.width), np.int64)
        self._mask: Residues = np.zeros((0, 0), np.int64)

    def begin(self, data: bytes) -> bytes:
        """From [F] to P F + U, encrypted; W~ starts at -U."""
        terms = self.terms
        operand = self.public.read_operand(data, (mixed(terms.inputs, terms.width), terms.width), for_rows=terms.inputs)
        cover = self.ring.wrap(stretch(self.seed, "layer cover", 0, (terms.inputs, terms.width), self.ring.bits))
        self.weights = self.ring.subtract(np.zeros_like(cover), cover)
        plain = self.ring.wrap(signs(terms.inputs, terms.width, self.seed))
        return self.public.masked_product(plain, operand, cover).to_bytes()

    def forward(self, data: bytes, rows: int) -> bytes:
        """From [alpha^T] to alpha W~ + mask, encrypted."""
        terms = self.terms
        operand = self.public.read_operand(data, (terms.digits * terms.inputs, rows), for_rows=terms.width)
        digits = _digits(self.ring.centred(self.weights.T), terms.base, terms.digits)
        return self._masked(self.ring.wrap(np.concatenate(digits, axis=1)), operand)

    def open(self, share: Residues) -> Tensor:
        """From alpha W + mask to alpha W."""
        numbers = self.terms.fits(self.ring.subtract(share, self._mask.T), "a layer's output")
        places = self.terms.places.embedding + self.terms.places.weights
        return torch.from_numpy(np.ldexp(numbers.astype(np.float64), -places))

    def weights_gradient(self, data: bytes, delta: Tensor) -> bytes:
        """From [alpha] to alpha^T delta + mask, encrypted."""
        terms, rows = self.terms, len(delta)
        operand = self.public.read_operand(data, (rows, terms.inputs), for_rows=terms.width)
        plain = self.ring.centred(self.ring.encode(delta.T, terms.product(rows) - terms.places.coarse))
        if int(np.abs(plain).sum(axis=1).max()) * (MOST << terms.places.coarse) > 1 << (terms.noise_bits - 1):
            raise DataError(
                f"Expected gradients that fit the {self.ring.bits} bits of the encrypted layer, which they outgrew: "
                "use a smaller lr or batch size, or bits=48."
            )
        return self._masked(self.ring.wrap(plain), operand)

    def stepped(self, share: Residues, rows: int) -> Residues:
        """From alpha^T delta + n / lr + mask to the next W~, to keep once this batch is over."""
        gradient = self.ring.centred(self.ring.subtract(share, self._mask.T))
        return self.ring.subtract(self.weights, self.terms.step(gradient, rows))

    def gradient(self, data: bytes, delta: Tensor, step: int) -> bytes:
        """From [N^T] to delta (W~ + N)^T, blurred, encrypted: for the feature party to open, so without a mask."""
        terms, rows = self.terms, len(delta)
        operand = self.public.read_operand(data, (terms.width, terms.inputs), for_rows=rows)
        plain = self.ring.encode(delta, terms.places.delta + _log2(rows))
        own = self.ring.matmul(plain, np.ascontiguousarray(self.weights.T))
        blur = stretch(self.seed, "blur", step, own.shape, terms.places.weights)
        return self.public.masked_product(plain, operand, self.ring.add(own, blur)).to_bytes()

    def _masked(self, plain: Residues, operand: Encrypted) -> bytes:
        self._mask = self.ring.uniform((plain.shape[0], operand.shape[1]))
        return self.public.masked_product(plain, operand, self._mask).to_bytes()


def _digits(numbers: Residues, base: int, count: int) -> list[Residues]:
    """Signed numbers as digits in base 2^base, the least first; each is signed, so that it stays small."""
    digits = []
    for _ in range(count - 1):
        low = Ring(base, 0).centred(numbers)
        digits.append(low)
        numbers = (numbers - low) >> base
    return [*digits, numbers]


def _log2(rows: int) -> int:
    return (rows - 1).bit_length()
