"""Tables with known two-valued columns, and messages about them."""

import numpy as np
from numpy.typing import NDArray


def table(rows: int, rank: int, shares=(0.1, 0.3, 0.5, 0.6, 0.9), seed: int = 0) -> tuple[NDArray, NDArray]:
    """Two-valued columns of certain frequencies, sharing factors with normal, skewed and even ones; and their bits."""
    rng = np.random.default_rng(seed)
    factors = rng.standard_normal((rows, 3))
    latent = factors @ rng.normal(scale=0.5, size=(3, rank)) + rng.standard_normal((rows, rank))
    latent /= latent.std(axis=0)
    bits = np.array([column > np.quantile(column, 1 - share) for column, share in zip(latent.T, shares, strict=False)])
    bits = bits.reshape(len(shares), rows)
    for number, column in enumerate(latent.T):
        if number < len(shares):
            column[:] = bits[number]
        elif number % 3 == 0:
            column[:] = np.exp(0.7 * column)
        elif number % 3 == 1:
            column[:] = np.argsort(np.argsort(column)) / rows
    return latent, bits


def sent(columns: NDArray, extra: int = 10, seed: int = 0, noise: float = 0) -> NDArray:
    """Messages in float32 under random weights and a bias; with noise, each of unit variance before."""
    rng = np.random.default_rng(seed)
    out = columns @ rng.standard_normal((columns.shape[1], columns.shape[1] + extra)) + rng.standard_normal()
    if noise:
        out = out / out.std(axis=0) + noise * rng.standard_normal(out.shape)
    return out.astype(np.float32)


def exact(columns: NDArray, bits: NDArray) -> int:
    """How many of the true columns were found, up to complement."""
    return sum(any((f == b).all() or (f != b).all() for f in columns) for b in bits)
