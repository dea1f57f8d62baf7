"""Mosaics: many small pictures as the tiles of one large, losslessly packed one."""

import io

import numpy as np
import torch
from torch import Tensor

from cutlayer.errors import DataError


def cut_tiles(picture: bytes, size: int, count: int) -> Tensor:
    """Return the first `count` tiles, row by row, as uint8 (count, channels, size, size)."""
    from PIL import Image

    try:
        with Image.open(io.BytesIO(picture)) as image:
            pixels = np.array(image)
    except (OSError, ValueError, Image.DecompressionBombError) as error:
        raise DataError(f"Expected a WebP or PNG picture: {error}.") from error
    pixels = pixels.reshape(*pixels.shape[:2], -1)
    height, width, channels = pixels.shape
    across, down = width // size, height // size
    if width % size or height % size or across * down < count:
        raise DataError(f"Expected at least {count} tiles of {size}x{size} pixels, got a picture of {width}x{height}.")
    tiles = pixels.reshape(down, size, across, size, channels).transpose(0, 2, 4, 1, 3)
    return torch.from_numpy(tiles.reshape(-1, channels, size, size)[:count])
