import pytest
import torch

from cutlayer.blocks.sparse import SparseRows
from cutlayer.data.task import Column, ColumnKind, Features
from cutlayer.errors import ConfigError, DataError
from cutlayer.models import MLP, DeepCross, LeNet, TokenMean, default_bottom, default_top

CATEGORY = Column("city", ColumnKind.CATEGORICAL, levels=3)
SPARSE = SparseRows(torch.tensor([0, 2, 3]), torch.tensor([0, 6, 2]), torch.ones(3), 7)


@pytest.mark.parametrize(
    ("features", "model"),
    [
        (Features(torch.randn(2, 6)), MLP),
        (Features(torch.randn(2, 1), (Column("age"),)), MLP),
        (Features(torch.randn(2, 1, 8, 4)), MLP),
        (Features(torch.randn(2, 5, 3)), MLP),
        (Features(torch.randn(2, 1, 28, 3)), MLP),
        (Features(torch.randn(2, 1, 28, 14)), LeNet),
        (Features(torch.randn(2, 3, 32, 32)), LeNet),
        (Features(torch.randn(2, 3, 32, 11)), LeNet),
        (Features(SPARSE), MLP),
        (Features(torch.tensor([[4, 40_000], [2, 0]])), TokenMean),
        (Features(torch.tensor([[0.5, 2.0], [0.1, 0.0]]), (Column("age"), CATEGORY)), DeepCross),
    ],
)
def test_every_kind_of_features_gets_a_model_that_runs(features, model):
    bottom = default_bottom(features, 5)
    assert isinstance(bottom, model)
    assert bottom(features.values).shape == (2, 5)


def test_the_top_reads_joined_embeddings():
    assert default_top(10, 3)(torch.randn(4, 10)).shape == (4, 3)


def test_what_cannot_be_served_is_named():
    with pytest.raises(ConfigError, match="Expected width=0"):
        default_bottom(Features(torch.randn(2, 6)), 0)
    with pytest.raises(ConfigError, match="Expected outputs=0"):
        default_top(3, 0)
    with pytest.raises(DataError, match="add a column"):
        default_bottom(Features(torch.randn(2)), 5)
    with pytest.raises(DataError, match="describe every column"):
        default_bottom(Features(torch.randn(2, 6), (CATEGORY,)), 5)
