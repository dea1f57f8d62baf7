"""Pictures laid out side by side, as some datasets keep them."""

import io

from PIL import Image


def mosaic(tiles, across, kind):
    """Lay (n, h, w, c) tiles out row by row and pack them without loss."""
    n, size, _, channels = tiles.shape
    grid = tiles.reshape(n // across, across, size, size, channels).transpose(0, 2, 1, 3, 4)
    pixels = grid.reshape(n // across * size, across * size, channels)
    out = io.BytesIO()
    Image.fromarray(pixels.squeeze()).save(out, kind, **({"lossless": True} if kind == "WEBP" else {}))
    return out.getvalue()
