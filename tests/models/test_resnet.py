import pytest
import torch

from cutlayer.models import ResNet18, ResNet20
from tests.helpers.parameters import count


@pytest.mark.parametrize("across", [32, 16, 11, 10])
@pytest.mark.parametrize("model", [ResNet18, ResNet20])
def test_resnet_sizes(model, across):
    inputs = torch.randn(2, 3, 32, across)
    assert model((3, 32, across), width=6)(inputs).shape == (2, 6)
    bare = model((3, 32, across))
    assert bare(inputs).shape[1:] == bare.out_shape


def test_resnet_parameters():
    assert count(ResNet20(width=10)) == 269_722
    assert count(ResNet18(width=10)) == count(ResNet18(width=10, max_pool=True)) == 11_173_962
    assert count(ResNet18()) == 11_173_962 - 5130


def test_max_pool_halves_the_maps():
    inputs = torch.randn(1, 1, 28, 14)
    trunk = ResNet18((1, 28, 14), max_pool=True).layers
    assert trunk[:4](inputs).shape == (1, 64, 14, 7)
