"""What a model needs to know of its inputs before it can size its layers: the shape of an image, or of a flat row."""

from math import isqrt, prod

import torch
from torch import Tensor

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


def holds_tokens(features: Features) -> bool:
    """Whether the inputs are token ids, which only a model of text can read."""
    return isinstance(features.values, Tensor) and features.values.dtype == torch.int64


def flat_width(features: Features) -> int:
    """Return how many numbers a row holds, images flattened, and refuse token ids."""
    if holds_tokens(features):
        raise ConfigError("Expected numbers for a linear layer, got token ids: use the bottom default or bert.")
    return prod(features.values.shape[1:])
