"""Target codes: one distinct +-1 code per class, from a seed that all parties know (HashVFL, section III-D)."""

from collections.abc import Mapping
from functools import lru_cache
from math import ceil, log2

import torch
from torch import Tensor

from cutlayer.draws import Draws
from cutlayer.errors import ConfigError, ProtocolError


def least_bits(classes: int) -> int:
    """The shortest code that tells the classes apart."""
    return max(1, ceil(log2(classes)))


def code_bits(defence: str, bits: int | None, classes: int) -> int:
    """The bits of a defence's codes, by default the fewest that tell the classes apart; there must be classes."""
    if not classes:
        raise ConfigError(f"Expected classes to hash for, got a regression task; leave {defence} out.")
    return least_bits(classes) if bits is None else bits


@lru_cache(maxsize=64)
def target_codes(classes: int, bits: int, seed: int, *names: str) -> Tensor:
    """Draw codes bit by bit, +1 or -1 with equal chance, again and again until all are distinct.

    Near-orthogonality holds in expectation only; the codebook is not optimised, as in the paper.
    """
    if bits < least_bits(classes):
        raise ConfigError(
            f"Expected at least {least_bits(classes)} bits to tell {classes} classes apart, got {bits}; use more bits."
        )
    rng = Draws(seed, "target codes", *names)
    codes: dict[tuple[int, ...], None] = {}
    while len(codes) < classes:
        codes[tuple((2 * rng.integers(2, (bits,)) - 1).tolist())] = None
    return torch.tensor(list(codes), dtype=torch.float32)


def hamming(first: Tensor, second: Tensor) -> Tensor:
    """Number of differing bits, per row: (d - <h, o>) / 2, which is d/2 (1 - cos) for +-1 codes."""
    return (first.shape[-1] - (first * second).sum(dim=-1)) / 2


def check_codes(arrived: Mapping[str, Tensor], bits: int, binary: bool = True) -> None:
    """Refuse what arrived if it is not, per row, a code of so many bits (or numbers, if not `binary`)."""
    for name, codes in arrived.items():
        if codes.shape[1:] != (bits,):
            raise ProtocolError(f"Expected codes of {bits} bits from {name}, got shape {tuple(codes.shape[1:])}.")
        if binary and not bool((codes.abs() == 1).all()):
            raise ProtocolError(f"Expected codes of +1 and -1 from {name}, got other numbers.")
