import pytest
import torch

from cutlayer.models import AlexNet, AlexNetRest, AlexNetTop, FirstLayer
from tests.helpers.parameters import count


@pytest.mark.parametrize("across", [32, 16, 11, 10])
def test_alexnet_sizes(across):
    bottom = AlexNet((3, 32, across))
    sent = bottom(torch.randn(2, 3, 32, across))
    assert sent.shape[1:] == (256, 4, across // 8) == bottom.out_shape
    assert AlexNetTop(bottom.out_shape, 10)(sent).shape == (2, 10)


def test_alexnet_parameters():
    convolutions = 3 * 64 * 25 + 64 * 192 * 25 + 192 * 384 * 9 + 384 * 256 * 9 + 256 * 256 * 9
    norms = 2 * (64 + 192 + 384 + 256 + 256)
    assert count(AlexNet()) == convolutions + norms == 2_452_416
    assert count(AlexNet(width=7)) == convolutions + norms + 4097 * 7
    assert count(AlexNetTop()) == 40_970


@pytest.mark.parametrize(("batch_norm", "more"), [(True, 2 * 1152), (False, 1152)])
def test_the_rest_of_alexnet_is_all_but_its_first_convolution(batch_norm, more):
    first = FirstLayer((3, 32, 32), maps=64, padding=2, batch_norm=batch_norm)
    rest = AlexNetRest(first.out_shape, batch_norm=batch_norm)
    assert rest(first(torch.randn(2, 3, 32, 32))).shape == (2, 10)
    assert count(first) + count(rest) == count(AlexNet()) - 2 * 1152 + more + count(AlexNetTop())
