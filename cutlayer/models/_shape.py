"""Check the shape of one image, which every image model needs before it can size its layers."""

from cutlayer._validate import at_least
from cutlayer.errors import ConfigError

Shape = tuple[int, int, int]


def image_shape(shape: tuple[int, ...], least: int) -> Shape:
    """Return (channels, height, width), and refuse images that the model's pooling would use up."""
    if len(shape) != 3:
        raise ConfigError(f"Expected shape={shape} to be (channels, height, width): leave the rows out.")
    channels, height, width = shape
    at_least("channels", channels, 1)
    if min(height, width) < least:
        raise ConfigError(
            f"Expected images of at least {least} x {least} pixels, got {height} x {width}: use MLP for smaller ones."
        )
    return channels, height, width
