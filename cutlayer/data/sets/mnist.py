"""MNIST and Fashion-MNIST: grey images of 28 by 28 pixels, in idx files."""

import math
import struct

import numpy as np
import numpy.typing as npt
import torch

from cutlayer.data.about import About
from cutlayer.data.assemble import Call, assemble_images, given_parts
from cutlayer.data.source import File, read
from cutlayer.data.task import Task
from cutlayer.errors import DataError

MNIST = About(
    "mnist",
    70_000,
    784,
    10,
    "handwritten digits, 28x28 pixels",
    "HashVFL, FedAdOb",
    "CC BY-SA 3.0 (as usually given)",
)
FASHION_MNIST = About("fashion-mnist", 70_000, 784, 10, "clothes, 28x28 pixels", "SFA", "MIT")

_GARMENTS = (
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"
)  # fmt: skip
_SUMS = {
    ("mnist", "train-images-idx3"): "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    ("mnist", "train-labels-idx1"): "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    ("mnist", "t10k-images-idx3"): "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    ("mnist", "t10k-labels-idx1"): "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    (
        "fashion_mnist",
        "train-images-idx3",
    ): "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
    (
        "fashion_mnist",
        "train-labels-idx1",
    ): "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
    ("fashion_mnist", "t10k-images-idx3"): "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
    ("fashion_mnist", "t10k-labels-idx1"): "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
}
_OFFICIAL = {
    "mnist": "https://ossci-datasets.s3.amazonaws.com/mnist",
    "fashion_mnist": "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion",
}
_DEBIAN = {"fashion_mnist": ("/usr/share/datasets/fashion-mnist",)}
_HINTS = {"fashion_mnist": "Debian has it as package dataset-fashion-mnist."}


def mnist(*, parties: int = 2, label_party: str | None = None, seed: int = 0, limit: int | None = None) -> Task:
    """Digits as (n, 1, 28, w) in [0, 1], cut into upright strips; the official 60,000/10,000 split."""
    return _idx_task(MNIST, "mnist", [str(n) for n in range(10)], Call.of(locals()))


def fashion_mnist(*, parties: int = 2, label_party: str | None = None, seed: int = 0, limit: int | None = None) -> Task:
    """Clothes as (n, 1, 28, w) in [0, 1], cut into upright strips; the official 60,000/10,000 split."""
    return _idx_task(FASHION_MNIST, "fashion_mnist", _GARMENTS, Call.of(locals()))


def parse_idx(data: bytes) -> npt.NDArray[np.uint8]:
    """Read an idx file of unsigned bytes."""
    if len(data) < 4 or data[:3] != b"\x00\x00\x08":
        raise DataError("Expected an idx file of unsigned bytes, got another format.")
    start = 4 + 4 * data[3]
    shape = struct.unpack(f">{data[3]}I", data[4:start]) if len(data) >= start else ()
    if len(data) - start != math.prod(shape):
        raise DataError(f"Expected {math.prod(shape)} bytes after the idx header, got {len(data) - start}.")
    return np.frombuffer(data, np.uint8, offset=start).reshape(shape)


def _idx_task(about: About, folder: str, classes: list[str] | tuple[str, ...], call: Call) -> Task:
    names = ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")
    train, train_labels, test, test_labels = (_read(folder, name) for name in names)
    images, labels = np.concatenate([train, test]), np.concatenate([train_labels, test_labels])
    about.check(min(len(images), len(labels)), math.prod(images.shape[1:]))
    return assemble_images(
        about,
        call,
        torch.from_numpy(images).unsqueeze(1),
        torch.from_numpy(labels).long(),
        classes,
        given_parts(len(train), len(test)),
    )


def _read(folder: str, name: str) -> npt.NDArray[np.uint8]:
    file = File(
        f"{folder}/{name}-ubyte",
        f"{_OFFICIAL[folder]}/{name}-ubyte.gz",
        sha256=_SUMS[folder, name],
        folders=_DEBIAN.get(folder, ()),
        hint=_HINTS.get(folder, ""),
    )
    return parse_idx(read(file))
