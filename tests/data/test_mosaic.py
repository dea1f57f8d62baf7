import numpy as np
import pytest
import torch

from cutlayer.data.mosaic import cut_tiles
from cutlayer.errors import DataError
from tests.helpers.mosaic import mosaic


@pytest.fixture
def tiles():
    return np.random.default_rng(0).integers(0, 256, (24, 32, 32, 3), dtype=np.uint8)


def test_tiles_come_back_as_they_were(tiles):
    cut = cut_tiles(mosaic(tiles, 6, "WEBP"), 32, 23)
    assert torch.equal(cut, torch.from_numpy(tiles.transpose(0, 3, 1, 2)[:23].copy()))
    with pytest.raises(DataError, match="Expected at least 25 tiles of 32x32 pixels, got a picture of 192x128"):
        cut_tiles(mosaic(tiles, 6, "WEBP"), 32, 25)
    with pytest.raises(DataError, match="Expected a WebP or PNG picture"):
        cut_tiles(b"nothing", 32, 1)
