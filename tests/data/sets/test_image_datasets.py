import gzip
import io
import json
import struct
import tarfile

import numpy as np
import pytest
import torch
from PIL import Image

from cutlayer.data import load
from cutlayer.data.mosaic import cut_tiles
from cutlayer.data.sets.cifar10 import parse_binary, parse_mosaics
from cutlayer.data.sets.fer2013 import parse
from cutlayer.data.sets.mnist import parse_idx
from cutlayer.errors import ConfigError, DataError


def idx(array):
    return gzip.compress(
        b"\x00\x00\x08" + bytes([array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()
    )


def mosaic(tiles, across, kind):
    """Lay (n, h, w, c) tiles out row by row and pack them without loss."""
    n, size, _, channels = tiles.shape
    grid = tiles.reshape(n // across, across, size, size, channels).transpose(0, 2, 1, 3, 4)
    pixels = grid.reshape(n // across * size, across * size, channels)
    out = io.BytesIO()
    Image.fromarray(pixels.squeeze()).save(out, kind, **({"lossless": True} if kind == "WEBP" else {}))
    return out.getvalue()


@pytest.fixture
def tiles():
    return np.random.default_rng(0).integers(0, 256, (24, 32, 32, 3), dtype=np.uint8)


def put_idx(put, folder="mnist"):
    rng = np.random.default_rng(0)
    train, test = rng.integers(0, 256, (20, 28, 28), dtype=np.uint8), np.zeros((5, 28, 28), dtype=np.uint8)
    put(f"{folder}/train-images-idx3-ubyte.gz", idx(train))
    put(f"{folder}/train-labels-idx1-ubyte.gz", idx(np.arange(20, dtype=np.uint8) % 10))
    put(f"{folder}/t10k-images-idx3-ubyte.gz", idx(test))
    put(f"{folder}/t10k-labels-idx1-ubyte.gz", idx(np.arange(5, dtype=np.uint8)))
    return train


@pytest.mark.parametrize("name", ["mnist", "fashion-mnist"])
def test_idx_files_become_strips_between_0_and_1(put, any_size, name):
    train = put_idx(put, name.replace("-", "_"))
    task = load(name)
    left, right = (part.values for part in task.features.values())
    assert left.shape == right.shape == (25, 1, 28, 14)
    assert torch.equal(torch.cat([left, right], dim=3)[:20, 0], torch.from_numpy(train).float() / 255)
    assert task.train.tolist() == list(range(20)) and task.test.tolist() == list(range(20, 25))
    assert len(task.classes) == 10


def test_short_idx_files_are_refused(put):
    put_idx(put)
    with pytest.raises(DataError, match="Expected 70000 rows and 784 columns for mnist, got 25 rows and 784"):
        load("mnist")
    with pytest.raises(DataError, match="Expected an idx file"):
        parse_idx(b"PNG")
    with pytest.raises(DataError, match="Expected 6 bytes after the idx header, got 5"):
        parse_idx(gzip.decompress(idx(np.zeros((2, 3), dtype=np.uint8)))[:-1])


def test_tiles_come_back_as_they_were(tiles):
    cut = cut_tiles(mosaic(tiles, 6, "WEBP"), 32, 23)
    assert torch.equal(cut, torch.from_numpy(tiles.transpose(0, 3, 1, 2)[:23].copy()))
    with pytest.raises(DataError, match="Expected at least 25 tiles of 32x32 pixels, got a picture of 192x128"):
        cut_tiles(mosaic(tiles, 6, "WEBP"), 32, 25)
    with pytest.raises(DataError, match="Expected a WebP or PNG picture"):
        cut_tiles(b"nothing", 32, 1)


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
