import pytest
import torch
from torch import nn

from cutlayer.blocks.sparse import SparseRows
from cutlayer.errors import ConfigError, DataError
from cutlayer.models import MLP, SparseLinear


def some_rows() -> SparseRows:
    """Six rows of nine columns; the first, one in the middle and the last are empty, one repeats a column."""
    lengths = torch.tensor([0, 3, 1, 0, 4, 0])
    offsets = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)])
    return SparseRows(offsets, torch.tensor([1, 4, 8, 0, 2, 2, 3, 7]), torch.randn(8), 9)


@pytest.mark.parametrize("bias", [True, False])
def test_value_and_gradient_equal_the_dense_layer(bias):
    rows = some_rows()
    sparse, dense = SparseLinear(9, 5, bias=bias), nn.Linear(9, 5, bias=bias)
    dense.weight.data = sparse.weight.data.T.clone()
    if sparse.bias is not None:
        dense.bias.data = sparse.bias.data.clone()
    mine, theirs = sparse(rows), dense(rows.to_dense())
    torch.testing.assert_close(mine, theirs)
    slope = torch.randn(6, 5)
    mine.backward(slope)
    theirs.backward(slope)
    torch.testing.assert_close(sparse.weight.grad, dense.weight.grad.T)
    if sparse.bias is not None:
        torch.testing.assert_close(sparse.bias.grad, dense.bias.grad)


def test_rows_cut_out_give_the_same_rows():
    rows, layer = some_rows(), SparseLinear(9, 5)
    picked = torch.tensor([4, 0, 4, 2])
    torch.testing.assert_close(layer(rows[picked]), layer(rows)[picked])


def test_no_rows_and_no_values_work():
    layer = SparseLinear(9, 5)
    assert layer(some_rows()[torch.tensor([], dtype=torch.int64)]).shape == (0, 5)
    torch.testing.assert_close(layer(some_rows()[torch.tensor([0, 3])]), layer.bias.expand(2, 5))


def test_it_starts_like_a_dense_layer():
    layer = SparseLinear(400, 300)
    assert layer.weight.abs().max().item() == pytest.approx(1 / 20, rel=0.01)
    assert layer.weight.std().item() == pytest.approx(1 / 20 / 3**0.5, rel=0.02)


def test_double_precision_follows_the_weights():
    assert SparseLinear(9, 5).double()(some_rows()).dtype == torch.float64


def test_a_sparse_mlp_trains():
    rows, model = some_rows(), MLP(9, [8, 2], sparse=True)
    target = torch.tensor([0, 1, 0, 0, 1, 0])
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05, fused=True)
    for _ in range(100):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(rows), target)
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.1


def test_wrong_sizes_are_named():
    with pytest.raises(DataError, match="Expected sparse rows of 8 columns, got 9"):
        SparseLinear(8, 5)(some_rows())
    with pytest.raises(ConfigError, match="Expected width=0"):
        SparseLinear(8, 0)
