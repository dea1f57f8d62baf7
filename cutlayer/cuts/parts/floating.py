"""The secure sum without security: the same messages in float64, W_mask in the clear. For accuracy experiments only.

It shows what a network learns under the protocol, at the speed of an open sum. It hides nothing: the label
party is handed W_mask, and masks of bounded size lose digits and show magnitudes.

Specification: sfa, section 3 ("float simulation").
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import scipy
import torch
from numpy.typing import NDArray
from torch import Tensor

from cutlayer.blocks.sparse import SparseRows
from cutlayer.cuts.parts.masking import bound_of
from cutlayer.errors import ProtocolError
from cutlayer.rng import numpy_generator

Floats = NDArray[np.float64]
SPREAD = 16.0  # size of the masks that cancel


class FloatRing:
    """What `crypto.Ring` does, on ordinary numbers."""

    def encode(self, values: Tensor) -> Floats:
        """As float64."""
        return np.asarray(values.detach().cpu().double().numpy())

    def decode(self, values: Floats) -> Floats:
        """Nothing to undo."""
        return values

    def add(self, left: Floats, right: Floats) -> Floats:
        """Sum."""
        return left + right

    def subtract(self, left: Floats, right: Floats) -> Floats:
        """Difference."""
        return left - right

    def sum(self, terms: Iterable[Floats]) -> Floats:
        """Sum of several matrices."""
        return np.asarray(np.sum(list(terms), axis=0))

    def check(self, values: Floats, name: str = "matrix") -> Floats:
        """Refuse what is not finite."""
        if not np.isfinite(values).all():
            raise ProtocolError(f"Expected finite numbers in {name}.")
        return np.asarray(values, np.float64)


class OpenZeroSum:
    """Masks that cancel, from seeds that everybody can derive: no keys, so no cryptography is needed to simulate."""

    def __init__(self, name: str, peers: Iterable[str], seed: int) -> None:
        self.name, self.peers, self.seed = name, tuple(peers), seed

    def zero_sum_mask(self, step: int, shape: Sequence[int]) -> Floats:
        """This party's mask of a step, of size up to SPREAD for each peer; all parties' sum to zero."""
        mask: Floats = np.zeros(shape)
        for peer in self.peers:
            first, second = sorted([self.name, peer])
            drawn = numpy_generator(self.seed, "open zero sum", first, second, step).uniform(-SPREAD, SPREAD, shape)
            mask += drawn if self.name == first else -drawn
        return mask


class OpenAgreement:
    """What `crypto.Agreement` does, with nothing agreed on: the run's seed, which all parties have, says it all."""

    def __init__(self, name: str, seed: int) -> None:
        self.name, self.seed, self.public = name, seed, b"\0"

    def meet(self, publics: Mapping[str, bytes]) -> OpenZeroSum:
        """The masks with these peers."""
        return OpenZeroSum(self.name, publics, self.seed)


class OpenHolder:
    """The holder's end, in the clear."""

    def __init__(self, inputs: int, width: int, seed: int) -> None:
        bound = bound_of(inputs)
        self.weights: Floats = numpy_generator(seed, "weight mask").uniform(-bound, bound, (inputs, width))

    def public(self) -> bytes:
        """There is no key."""
        return b"\0"

    def operand(self) -> bytes:
        """W_mask itself."""
        return self.weights.tobytes()

    def open(self, data: bytes, rows: int) -> Floats:
        """Read a product."""
        return np.frombuffer(data).reshape(rows, self.weights.shape[1]).copy()

    def blurred(self, encoded: Floats, embedding: Tensor) -> Floats:
        """Floats have no bits to hide."""
        return encoded


class OpenBlind:
    """The label party's end, not blind at all: it was handed W_mask, so bottoms of any depth can be trained."""

    def __init__(self, inputs: int, width: int, operand: bytes, seed: int) -> None:
        self.weights: Floats = np.frombuffer(operand).reshape(inputs, width)
        self.rng = numpy_generator(seed, "float masks")

    def forward(self, rows: Tensor | SparseRows, most: float) -> tuple[bytes, Floats]:
        """X W_mask - mask, and the mask, as large as a product can be."""
        if isinstance(rows, SparseRows):
            parts = (rows.values, rows.columns, rows.offsets)
            plain: Any = scipy.sparse.csr_array(tuple(part.cpu().numpy() for part in parts), shape=rows.shape)
            size = np.sqrt(np.asarray(plain.multiply(plain).sum(axis=1)).ravel())
        else:
            plain = rows.detach().cpu().double().numpy()
            size = np.linalg.norm(plain, axis=1)
        limit = (size * bound_of(len(self.weights)))[:, None]
        mask: Floats = self.rng.uniform(-1, 1, (len(size), self.weights.shape[1])) * limit
        return np.asarray(plain @ self.weights - mask).tobytes(), mask

    def backward(self, gradient: Tensor) -> Tensor:
        """delta W_mask^T: what flows on into the layers before the last, beside delta W_A^T."""
        return torch.from_numpy(gradient.detach().cpu().double().numpy() @ self.weights.T).to(gradient)
