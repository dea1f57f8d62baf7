"""Full images, halves and thirds through every image model, and parameter counts worked out by hand."""

import pytest
import torch
from torch import nn

from cutlayer.errors import ConfigError
from cutlayer.models import AlexNet, AlexNetRest, AlexNetTop, FirstLayer, LeNet, LeNetTop, ResNet18, ResNet20
from cutlayer.models.parts.residual import Subsample


def count(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


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


def test_parameter_free_shortcut_skips_pixels_and_fills_with_zeros():
    inputs = torch.arange(2 * 4 * 3, dtype=torch.float32).reshape(1, 2, 4, 3)
    output = Subsample(2, 4, 2)(inputs)
    assert output.shape == (1, 4, 2, 2)
    assert output[0, 1].tolist() == [[0, 2], [6, 8]]
    assert not output[0, 0].any() and not output[0, 3].any()


@pytest.mark.parametrize("model", [LeNet, AlexNet, ResNet18, ResNet20])
def test_wrong_shapes_and_widths_are_named(model):
    with pytest.raises(ConfigError, match="leave the rows out"):
        model((5, 3, 32, 32))
    with pytest.raises(ConfigError, match="Expected channels=0 to be at least 1"):
        model((0, 32, 32))
    with pytest.raises(ConfigError, match="Expected width=0 to be at least 1"):
        model((3, 32, 32), width=0)


def test_images_that_are_too_small_are_refused():
    with pytest.raises(ConfigError, match="at least 4 x 4 pixels, got 28 x 3"):
        LeNet((1, 28, 3))
    with pytest.raises(ConfigError, match="at least 8 x 8 pixels, got 32 x 7"):
        AlexNet((3, 32, 7))
    with pytest.raises(ConfigError, match="Expected outputs=0"):
        LeNetTop((16, 8, 8), 0)
    with pytest.raises(ConfigError, match="Expected maps="):
        LeNet(maps=(8,))
