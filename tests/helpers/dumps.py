"""Dumps that try to deceive a search for two-valued columns: every scale, precision, width and kind of noise."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

Floats = NDArray[np.float64]
SCALES = (1.0, 1e2, 1e3, 1e4, 1e5, 1e6)  # of the columns that are not two-valued
PRECISIONS = ("float64", "float32", "float16", "bfloat16", "computed", "0", "1", "2", "3", "4", "6", "digits", "step")
NOISES = ("none", "none", "none", "normal", "correlated", "centred", "some", "heavy", "one-sided")
TWISTS = ("none", "collinear", "near", "outliers", "skewed", "offset", "twice", "unequal weights")


@dataclass(frozen=True)
class Dump:
    """Messages, the two-valued columns behind them, and what was done to them."""

    messages: NDArray
    bits: NDArray[np.bool_]  # planted x rows
    about: str


def dump(seed: int) -> Dump:
    """A small dump, all about it drawn from the seed: 2 to 8 columns, none to 3 of them two-valued, 150 to 400 rows."""
    rng = np.random.default_rng(seed)
    rows, size, planted = int(rng.integers(150, 400)), int(rng.integers(2, 9)), int(rng.integers(0, 4))
    width = size + int(rng.choice([-2, 0, 1, 2, 3, 6, 12]))
    scale, level = float(rng.choice(SCALES)), float(10.0 ** rng.uniform(-7, 0))
    precision, noise, twist = (str(rng.choice(kinds)) for kinds in (PRECISIONS, NOISES, TWISTS))
    planted, width = min(planted, size - 1), max(width, 1)
    if twist == "unequal weights":  # columns fainter than the certificate's own limit are another test's
        scale = min(scale, 1e3)
    bits = rng.random((planted, rows)) < rng.choice([0.5, 0.3, 0.05], size=(planted, 1))
    bits = bits[bits.any(axis=1) & ~bits.all(axis=1)]
    others = rng.standard_normal((rows, size - len(bits)))
    others = (np.exp(others) if rng.random() < 0.3 else others) * scale ** rng.choice([0, 1, 1], size=others.shape[1])
    columns = twisted(np.column_stack([bits.T.astype(float), others]), twist, len(bits), rng)
    weights = rng.standard_normal((columns.shape[1], width))
    if twist == "unequal weights":
        weights *= np.geomspace(1, 1e-2, len(weights))[rng.permutation(len(weights)), None]
    exact = columns @ weights + rng.standard_normal(width) * (1e3 if twist == "offset" else 1)
    if precision == "computed":
        exact = columns.astype(np.float32) @ weights.astype(np.float32) + np.float32(1)
    if twist == "twice" and width > 1:
        exact[:, 0] = 2 * exact[:, 1]
    noisy = exact + (level * float(np.median(np.abs(exact))) * drawn(noise, exact.shape, rng) if noise != "none" else 0)
    about = f"seed {seed}: {rows} x {size} -> {width}, {len(bits)} planted, scale {scale:g}, {precision}, {twist}, "
    return Dump(rounded(noisy, precision), bits, f"{about}{noise} noise {level:.0e}")


def twisted(columns: Floats, twist: str, planted: int, rng: np.random.Generator) -> Floats:
    """Columns that are sums of others, nearly so, far out in some rows, or rarely anything but zero."""
    columns = columns.copy()
    last = columns[:, -1]
    if twist == "collinear":
        return np.column_stack([columns, columns @ rng.standard_normal(columns.shape[1])])
    if twist == "near" and planted:
        return np.column_stack([columns, last + columns[:, 0] * 10.0 ** rng.uniform(-6, -1)])
    if twist == "outliers":
        last[rng.integers(len(last), size=3)] *= 10.0 ** rng.uniform(1, 5)
    if twist == "skewed":
        last[rng.random(len(last)) < 0.9] = 0
    return columns


def drawn(kind: str, shape: tuple[int, int], rng: np.random.Generator) -> Floats:
    """Noise of size about one."""
    normal = rng.standard_normal(shape)
    if kind == "correlated":
        return normal @ rng.standard_normal((shape[1], shape[1]))
    if kind == "centred":  # the noise of a row adds up to zero
        return normal - normal.mean(axis=1, keepdims=True)
    if kind == "some":
        return normal * (rng.random(shape[1]) < 0.5)
    if kind == "heavy":
        return rng.standard_t(2, shape)
    return np.abs(normal) if kind == "one-sided" else normal


def rounded(messages: Floats, precision: str) -> NDArray:
    """The messages as a file or a network would hold them."""
    if precision in ("float64", "float32"):
        return messages.astype(precision)
    if precision == "computed":
        return messages.astype(np.float32)
    if precision in ("float16", "bfloat16"):
        tensor = torch.from_numpy(np.asarray(messages, dtype=np.float64))
        if precision == "float16":
            tensor = tensor.clamp(-6e4, 6e4)
        return tensor.to(getattr(torch, precision)).float().numpy()
    if precision == "digits":
        return np.vectorize(lambda number: float(f"{number:.5g}"))(messages)
    if precision == "step":  # eight bits between the smallest and the largest
        step = np.ptp(messages) / 255
        return (np.rint(messages / step) * step).astype(np.float32)
    return messages.round(int(precision))
