import gzip
import struct

import numpy as np
import pytest
import torch

from cutlayer.data import load
from cutlayer.data.sets.mnist import parse_idx
from cutlayer.errors import DataError


def idx(array):
    return gzip.compress(
        b"\x00\x00\x08" + bytes([array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()
    )


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
