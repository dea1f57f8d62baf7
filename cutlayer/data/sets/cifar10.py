"""CIFAR-10: colour images of 32 by 32 pixels, ten classes.

Read from the official binary release (its folder or its archive; the python release is pickled,
so it is not read), or from the same images as one lossless WebP mosaic per batch.
"""

import json
from pathlib import PurePosixPath

import numpy as np
import torch
from torch import Tensor

from cutlayer._validate import one_of
from cutlayer.data.about import About
from cutlayer.data.assemble import Call, assemble_images, given_parts
from cutlayer.data.mosaic import cut_tiles
from cutlayer.data.source import MB, File, find, locate, read, read_tar
from cutlayer.data.task import Task
from cutlayer.errors import DataError

CIFAR10 = About(
    "cifar10", 60_000, 3072, 10, "colour pictures, 32x32 pixels", "HashVFL, FedAdOb, VFLRecon",
    "none stated; cite Krizhevsky 2009",
)  # fmt: skip
_CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
_BATCHES = tuple(f"data_batch_{number}" for number in range(1, 6))
_RECORD = 1 + 3072  # a label byte, then the three colour planes
_ARCHIVE = File(
    "cifar10/cifar-10-binary.tar",
    "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
    served="c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
    size=256 * MB,
)


def cifar10(
    *,
    parties: int = 2,
    label_party: str | None = None,
    seed: int = 0,
    limit: int | None = None,
    preparation: str = "colour",
) -> Task:
    """Pictures as (n, 3, 32, w) in [0, 1], cut into upright strips; the official 50,000/10,000 split.

    preparation="vflrecon" gives what that paper's counts imply: one grey channel in [-1, 1].
    """
    call = Call.of(locals())
    one_of("preparation", preparation, ("colour", "vflrecon"))
    images, labels = _load()
    CIFAR10.check(min(len(images), len(labels)), images[0].numel())
    parts = given_parts(len(images) - len(images) // 6, len(images) // 6)
    if preparation == "colour":
        return assemble_images(CIFAR10, call, images, labels, _CLASSES, parts)
    notes = ("grey by the usual luma weights, in [-1, 1]",)
    return assemble_images(CIFAR10, call, images, labels, _CLASSES, parts, _grey, notes)


def parse_binary(data: bytes) -> tuple[Tensor, Tensor]:
    """Read one batch of the binary release: images (n, 3, 32, 32) uint8, and labels."""
    if not data or len(data) % _RECORD:
        raise DataError(f"Expected records of {_RECORD} bytes in a CIFAR-10 batch, got {len(data)} bytes.")
    records = torch.from_numpy(np.frombuffer(data, np.uint8).reshape(-1, _RECORD).copy())
    return records[:, 1:].reshape(-1, 3, 32, 32), records[:, 0].long()


def parse_mosaics(pictures: list[bytes], labels: list[int]) -> tuple[Tensor, Tensor]:
    """Read batches kept as mosaics of equally many tiles."""
    count = len(labels) // len(pictures)
    return torch.cat([cut_tiles(picture, 32, count) for picture in pictures]), torch.tensor(labels)


def _load() -> tuple[Tensor, Tensor]:
    """All images, training batches first, from whichever form is there."""
    mosaics = [File(f"cifar10/{name}.webp") for name in (*_BATCHES, "test_batch")]
    if locate(mosaics[0]):
        labels = [_labels("train"), _labels("test")]
        return parse_mosaics([read(file) for file in mosaics], [code for part in labels for code in part])
    binary = [_binary(name) for name in (*_BATCHES, "test_batch")]
    if locate(*binary[0]):
        batches = [read(next(file for file in files if locate(file))) for files in binary]
    else:
        batches = _from_archive()
    parsed = [parse_binary(batch) for batch in batches]
    return torch.cat([images for images, _ in parsed]), torch.cat([labels for _, labels in parsed])


def _binary(name: str) -> tuple[File, ...]:
    folders = ("cifar10", "cifar10/cifar-10-batches-bin", "cifar-10-batches-bin")
    return tuple(File(f"{folder}/{name}.bin") for folder in folders)


def _from_archive() -> list[bytes]:
    held = {PurePosixPath(name).stem: data for name, data in read_tar(find(_ARCHIVE)) if name.endswith(".bin")}
    try:
        return [held[name] for name in (*_BATCHES, "test_batch")]
    except KeyError as error:
        raise DataError(f"Expected {error.args[0]}.bin in the CIFAR-10 archive, got {', '.join(held)}.") from error


def _labels(part: str) -> list[int]:
    try:
        return [int(code) for code in json.loads(read(File(f"cifar10/{part}_labels.json")))]
    except (ValueError, TypeError) as error:
        raise DataError(f"Expected a JSON array of class numbers in cifar10/{part}_labels.json: {error}.") from error


def _grey(images: Tensor) -> Tensor:
    weights = torch.tensor([0.299, 0.587, 0.114]).view(1, 3, 1, 1)
    return (images * weights).sum(dim=1, keepdim=True) / 127.5 - 1
