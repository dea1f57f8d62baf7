import pytest
import torch

from cutlayer.cuts import Sum
from cutlayer.errors import ConfigError, ProtocolError


def test_embeddings_are_added():
    joint = Sum().join([torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, 5.0]]), torch.tensor([[10.0, 10.0]])])
    assert joint.tolist() == [[14, 17]]
    assert Sum().shape([(2,), (2,), (2,)]) == (2,)


def test_embeddings_of_different_shapes_are_refused():
    with pytest.raises(ConfigError, match="of one shape to add"):
        Sum().shape([(2,), (1,)])
    with pytest.raises(ProtocolError, match=r"got \(1, 2\) and \(1, 1\)"):  # torch would stretch the second
        Sum().join([torch.zeros(1, 2), torch.zeros(1, 1)])
