"""Handwritten digits of 8 by 8 pixels: real data that needs no download."""

import torch

from cutlayer.data.about import About
from cutlayer.data.assemble import Call, assemble_images, random_parts
from cutlayer.data.task import Task

DIGITS = About("digits", 1797, 64, 10, "handwritten digits, 8x8 pixels", terms="UCI, CC BY 4.0; inside scikit-learn")


def digits(*, parties: int = 2, label_party: str | None = None, seed: int = 0, limit: int | None = None) -> Task:
    """Digits as images (n, 1, 8, 8) in [0, 1], cut into upright strips; 80/20 split by class."""
    call = Call.of(locals())
    from sklearn.datasets import load_digits

    bunch = load_digits()
    images = torch.from_numpy(bunch.images).float().unsqueeze(1)
    parts = random_parts(DIGITS, call, bunch.target, test=0.2)
    labels = torch.from_numpy(bunch.target).long()
    return assemble_images(DIGITS, call, images, labels, [str(n) for n in range(10)], parts, lambda image: image / 16)
