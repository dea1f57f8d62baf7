import json

import numpy as np
import pytest
import torch

from cutlayer.data import load
from cutlayer.data.sets.fer2013 import parse
from cutlayer.errors import ConfigError, DataError
from tests.helpers.mosaic import mosaic


def test_fer2013_reads_grey_tiles_and_repeats_them_for_colour_models(put, any_size):
    tiles = np.random.default_rng(0).integers(0, 256, (8, 48, 48, 1), dtype=np.uint8)
    for name, count in (("train_7636", 7), ("test_2035", 3)):
        put(f"fer2013_subset/{name}.png", mosaic(tiles, 4, "PNG"))
        put(
            f"fer2013_subset/{name}_labels.json",
            json.dumps({"label": list(range(count)), "id": list(range(count))}),
        )
    task = load("fer2013", parties=1, label_party="server", channels=3)
    images = task.features["party1"].values
    assert images.shape == (10, 3, 48, 48) and torch.equal(images[:, 0], images[:, 2])
    assert torch.equal(images[:7, 0], torch.from_numpy(tiles[:7, :, :, 0]).float() / 255)
    assert task.labels.tolist() == [*range(7), *range(3)] and len(task.test) == 3
    with pytest.raises(ConfigError, match="Expected channels=2 to be 1 or 3"):
        load("fer2013", channels=2)
    with pytest.raises(DataError, match="list 'label'"):
        parse(mosaic(tiles, 4, "PNG"), b"[]")
