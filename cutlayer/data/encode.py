"""From columns to inputs: one-hot or integer codes for categories, scales for numbers.

Binary columns stay 0 and 1 under every choice, since attacks on binary inputs rely on it and a
model needs no scale for them. Scales come from the training rows only.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from cutlayer.data.columns import Prepared
from cutlayer.data.task import Column, ColumnKind, Features

_Array = npt.NDArray[Any]


def features(columns: Sequence[Prepared], coding: str, scaling: str, train: _Array) -> Features:
    """Join one party's columns into its inputs, (n, width) float32."""
    described: list[Column] = []
    blocks = []
    for column in columns:
        inputs, values = encode(column, coding, scaling, train)
        described += inputs
        blocks.append(values)
    return Features(torch.from_numpy(np.concatenate(blocks, axis=1)), tuple(described))


def encode(column: Prepared, coding: str, scaling: str, train: _Array) -> tuple[list[Column], _Array]:
    """Return the inputs that a column becomes, (n, width) float32, and their descriptions."""
    if column.kind is ColumnKind.BINARY:
        return [Column(column.name, column.kind)], column.values[:, None].astype(np.float32)
    if column.kind is ColumnKind.NUMERIC:
        return [Column(column.name)], scaled(column.values, scaling, train)[:, None].astype(np.float32)
    if coding == "integer":  # one code more than levels: unseen levels share it
        described = [Column(column.name, column.kind, levels=len(column.levels) + 1)]
        return described, column.values[:, None].astype(np.float32)
    hot = column.values[:, None] == np.arange(len(column.levels))
    return [
        Column(f"{column.name}={level}", ColumnKind.BINARY, source=column.name) for level in column.levels
    ], hot.astype(np.float32)


def scaled(values: _Array, scaling: str, train: _Array) -> _Array:
    """Shift and stretch by what the training rows hold."""
    if scaling == "none":
        return values
    seen = values[train]
    if scaling == "minmax":
        start, span = seen.min(), seen.max() - seen.min()
    else:
        start, span = seen.mean(), seen.std()
    result: _Array = (values - start) / (span if span > 0 else 1.0)
    return result
