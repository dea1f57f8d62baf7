import pytest
import torch

from cutlayer.cuts import Concat
from cutlayer.errors import ConfigError


def test_embeddings_stand_side_by_side_in_the_roster_s_order():
    joint = Concat().join([torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0]])])
    assert joint.tolist() == [[1, 2, 3]]
    assert Concat().shape([(2,), (1,)]) == (3,)


def test_feature_maps_join_by_channel():
    maps = [torch.zeros(5, 2, 4, 4), torch.ones(5, 3, 4, 4)]
    assert Concat().join(maps).shape[1:] == Concat().shape([(2, 4, 4), (3, 4, 4)]) == (5, 4, 4)


def test_maps_of_different_sizes_are_refused():
    with pytest.raises(ConfigError, match="differ in their first size only"):
        Concat().shape([(2, 4, 4), (2, 5, 5)])
