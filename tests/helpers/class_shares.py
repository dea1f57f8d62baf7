"""How often each class occurs."""

import torch
from torch import Tensor


def class_shares(labels: Tensor, classes: int) -> list[float]:
    return (torch.bincount(labels, minlength=classes) / len(labels)).tolist()
