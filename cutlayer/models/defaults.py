"""Default models: what a user gets who names none. Chosen to train in seconds on a CPU, not to win."""

from math import prod

import torch
from torch import nn

from cutlayer._validate import at_least
from cutlayer.blocks.sparse import SparseRows
from cutlayer.data.task import ColumnKind, Features
from cutlayer.errors import DataError
from cutlayer.models.deep_cross import DeepCross
from cutlayer.models.lenet import LeNet
from cutlayer.models.mlp import MLP
from cutlayer.models.token_mean import TokenMean

HIDDEN = 64
SMALL = 16  # images no larger than this are as well read flat
TOKENS = 30522  # BERT's vocabulary: room for words that no row holds yet


def default_bottom(features: Features, width: int) -> nn.Module:
    """Return a bottom that suits a party's features and sends embeddings of `width`.

    Tables and tiny images get an MLP, tables with integer-coded categories Deep & Cross, larger
    images a LeNet, sparse text an MLP that starts sparse, token ids a mean of word vectors.
    """
    at_least("width", width, 1)
    values = features.values
    if isinstance(values, SparseRows):
        return MLP(values.width, [HIDDEN, width], sparse=True)
    if values.ndim < 2:
        raise DataError(f"Expected features with a row per sample, got shape {tuple(values.shape)}: add a column.")
    if any(column.kind is ColumnKind.CATEGORICAL for column in features.columns):
        if len(features.columns) != values.shape[1]:
            raise DataError(
                f"Expected {values.shape[1]} columns to be described, got {len(features.columns)}: "
                "describe every column."
            )
        return DeepCross(features.columns, width)
    if values.dtype == torch.int64 and values.ndim == 2 and not features.columns:
        largest = int(values.max()) if values.numel() else 0
        return TokenMean(width, vocabulary=max(TOKENS, largest + 1))
    shape = tuple(values.shape[1:])
    if len(shape) == 3 and max(shape[1:]) > SMALL and min(shape[1:]) >= 4:
        return LeNet(shape, width=width, maps=(8, 16) if shape[0] == 1 else (16, 32))
    return MLP(prod(shape), [HIDDEN, width])


def default_top(inputs: int, outputs: int) -> nn.Module:
    """Return a top with one hidden layer, for joined embeddings of `inputs` numbers a row."""
    at_least("outputs", outputs, 1)
    return MLP(inputs, [HIDDEN, outputs])
