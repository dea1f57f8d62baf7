import io
import json
import tarfile

import numpy as np
import pytest
import torch

from cutlayer.data import load
from cutlayer.data.sets.cifar10 import parse_binary, parse_mosaics
from cutlayer.errors import ConfigError, DataError
from tests.helpers.mosaic import mosaic


@pytest.fixture
def tiles():
    return np.random.default_rng(0).integers(0, 256, (24, 32, 32, 3), dtype=np.uint8)


def batches(tiles):
    """Six batches of four images in the layout of the binary release."""
    planes = tiles.transpose(0, 3, 1, 2).reshape(24, -1)
    records = np.concatenate([np.arange(24, dtype=np.uint8)[:, None] % 10, planes], axis=1)
    names = [*(f"data_batch_{n}" for n in range(1, 6)), "test_batch"]
    return dict(zip(names, (part.tobytes() for part in np.split(records, 6)), strict=True))


@pytest.mark.parametrize("form", ["mosaic", "folder", "archive"])
def test_cifar10_is_the_same_from_every_form(put, any_size, tiles, form):
    if form == "mosaic":
        for number, name in enumerate(batches(tiles)):
            put(f"cifar10/{name}.webp", mosaic(tiles[4 * number : 4 * number + 4], 2, "WEBP"))
        put("cifar10/train_labels.json", json.dumps([n % 10 for n in range(20)]))
        put("cifar10/test_labels.json", json.dumps([n % 10 for n in range(20, 24)]))
    elif form == "folder":
        for name, content in batches(tiles).items():
            put(f"cifar-10-batches-bin/{name}.bin", content)
    else:
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w:gz") as archive:
            for name, content in reversed(batches(tiles).items()):
                member = tarfile.TarInfo(f"cifar-10-batches-bin/{name}.bin")
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
        put("cifar10/cifar-10-binary.tar.gz", out.getvalue())
    task = load("cifar10", parties=1, label_party="server")
    images = task.features["party1"].values
    assert torch.equal(images, torch.from_numpy(tiles.transpose(0, 3, 1, 2).copy()).float() / 255)
    assert task.labels.tolist() == [n % 10 for n in range(24)]
    assert task.train.tolist() == list(range(20)) and task.test.tolist() == list(range(20, 24))


def test_cifar10_as_vflrecon_is_grey_between_minus_1_and_1(put, any_size, tiles):
    for name, content in batches(np.where(tiles < 128, 0, 255).astype(np.uint8)).items():
        put(f"cifar10/{name}.bin", content)
    values = load("cifar10", preparation="vflrecon").features["party1"].values
    assert values.shape == (24, 1, 32, 16)
    assert float(values.min()) == -1 and float(values.max()) == pytest.approx(1)


def test_cifar10_refuses_short_files(put, tiles):
    for name, content in batches(tiles).items():
        put(f"cifar10/{name}.bin", content)
    with pytest.raises(DataError, match="Expected 60000 rows and 3072 columns for cifar10, got 24 rows"):
        load("cifar10")
    with pytest.raises(DataError, match="records of 3073 bytes"):
        parse_binary(b"12")
    with pytest.raises(ConfigError, match="Unknown preparation 'grey'"):
        load("cifar10", preparation="grey")
    assert parse_mosaics([mosaic(tiles[:4], 2, "WEBP")], [1, 2, 3])[1].tolist() == [1, 2, 3]
