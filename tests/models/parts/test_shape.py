import pytest

from cutlayer.errors import ConfigError
from cutlayer.models import AlexNet, LeNet, LeNetTop, ResNet18, ResNet20


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
