import pytest
import torch

from cutlayer.models import LeNet, LeNetTop
from tests.helpers.parameters import count


@pytest.mark.parametrize(
    ("shape", "maps"),
    [
        ((1, 28, 28), (16, 8, 8)),
        ((1, 28, 14), (16, 8, 7)),
        ((1, 28, 10), (16, 8, 5)),
        ((1, 28, 9), (16, 8, 4)),
        ((1, 14, 14), (16, 7, 7)),
        ((3, 32, 32), (16, 10, 10)),
        ((3, 32, 16), (16, 10, 2)),
        ((1, 4, 4), (16, 2, 2)),
    ],
)
def test_lenet_sizes(shape, maps):
    bottom = LeNet(shape)
    top = LeNetTop(bottom.out_shape, 10)
    inputs = torch.randn(2, *shape)
    sent = bottom(inputs)
    assert sent.shape[1:] == maps == bottom.out_shape
    torch.testing.assert_close(top(sent), top(sent.flatten(1)))
    assert LeNet(shape, width=5)(inputs).shape == (2, 5)


def test_lenet_parameters():
    convolutions = (25 + 1) * 8 + 25 * 8 * 16
    assert count(LeNet()) == convolutions + 2 * 16
    assert count(LeNet(batch_norm=False)) == convolutions + 16
    assert count(LeNet(width=4)) == convolutions + 2 * 16 + (256 + 1) * 4
    assert count(LeNetTop()) == 257 * 120 + 121 * 84 + 85 * 10
