"""The shape of one image, which every image model needs before it can size its layers."""

from math import isqrt

from cutlayer._validate import at_least
from cutlayer.data.task import Features
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


def shape_of_images(features: Features) -> tuple[int, ...]:
    """Return the shape of a party's images, and refuse tables and text."""
    shape = tuple(features.values.shape[1:])
    if len(shape) != 3:
        raise ConfigError(f"Expected images (channels, height, width) for a convolution, got inputs of shape {shape}.")
    return shape


def shape_of_maps(inputs: int, maps: int, top: str) -> Shape:
    """Return the shape of square feature maps that arrive flat, as `inputs` numbers a row."""
    side = isqrt(inputs // maps)
    if maps * side * side != inputs:
        raise ConfigError(f"Expected {maps} square maps for the top {top}, got {inputs} numbers; set maps=.")
    return maps, side, side
