"""Secure sum keeps one share per row: what makes a label party's row change is refused, never summed wrongly."""

import pytest
import torch
from torch import nn

import cutlayer as cl
from cutlayer.blocks.sparse import SparseRows
from cutlayer.cuts.parts.unchanged import Unchanged, prints
from cutlayer.cuts.secure_sum import SecureSum
from cutlayer.defences import ColumnNoise, Instahide
from cutlayer.errors import ConfigError
from cutlayer.models.mlp import MLP
from cutlayer.plan import Plan, assemble
from tests.helpers.random_task import random_task

COLUMNS, WIDTH = 4, 5
CHANGED = "rows to stay as they are under secure-sum, got a row that changed"


def session_with(*before: nn.Module, defences=(), scheme="bfv"):
    """Two parties whose bottoms are a linear layer behind some others."""

    def bottom(features, width):
        return nn.Sequential(*before, nn.Linear(COLUMNS, width, bias=False))

    task = random_task("secure sum", 64, 2, COLUMNS, 1.0, own=True)
    recipe = cl.Recipe(epochs=2, batch_size=16, lr=0.05)
    top = lambda inputs, outputs: MLP(inputs, [8, outputs], first_activation=True)  # noqa: E731
    plan = Plan(bottoms=bottom, top=top, width=WIDTH, cut=SecureSum(scheme=scheme), recipe=recipe, defences=defences)
    return task, assemble(task, plan, lambda message: None)


def train(task, session):
    for epoch in range(2):
        session.train_epoch(epoch, task.train)


CHANGING = {
    "input dropout": {"before": (nn.Dropout(0.5),)},
    "batch norm": {"before": (nn.BatchNorm1d(COLUMNS, affine=False, track_running_stats=False),)},
    "instahide": {"defences": (Instahide(),)},
}


@pytest.mark.parametrize("name", CHANGING)
def test_rows_that_change_are_refused_when_they_do(name):
    how = CHANGING[name]
    with pytest.raises(ConfigError, match=CHANGED):
        train(*session_with(*how.get("before", ()), defences=how.get("defences", ())))
    train(*session_with(*how.get("before", ()), defences=how.get("defences", ()), scheme="none"))  # made anew: fine


@pytest.mark.parametrize("layer", [nn.BatchNorm1d(COLUMNS), nn.BatchNorm1d(COLUMNS, affine=False)], ids=str)
def test_layers_with_weights_or_statistics_are_refused_before_training(layer):
    with pytest.raises(ConfigError, match="one linear layer as the label party's bottom"):
        session_with(layer)


@pytest.mark.parametrize("how", [{"defences": (ColumnNoise(),)}, {"before": (nn.Flatten(),)}, {"before": (nn.Tanh(),)}])
def test_rows_that_stay_are_not(how):
    task, session = session_with(*how.get("before", ()), defences=how.get("defences", ()))
    train(task, session)
    session.predict(task.test)


def test_a_row_is_compared_bit_by_bit_dense_or_sparse():
    dense = torch.randn(6, 3, generator=torch.Generator().manual_seed(0))
    sparse = SparseRows(torch.tensor([0, 2, 2, 3]), torch.tensor([0, 4, 1]), torch.tensor([1.0, 2.0, 3.0]), 5)
    for rows, number in ((dense, 6), (sparse, 3)):
        unchanged, names = Unchanged(), torch.arange(10, 10 + number).numpy()
        unchanged.check(names, rows)
        unchanged.check(names, rows)
        unchanged.check(names[::-1], rows[torch.arange(number).flip(0)])
        assert len(set(prints(rows))) == number
        with pytest.raises(ConfigError, match=CHANGED):
            unchanged.check(names[::-1], rows)
    moved = SparseRows(sparse.offsets, torch.tensor([0, 4, 2]), sparse.values, 5)
    assert [a == b for a, b in zip(prints(sparse), prints(moved), strict=True)] == [True, True, False]
    assert prints(dense + 1e-7)[0] != prints(dense)[0]
