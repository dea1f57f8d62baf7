import pytest
import torch

from cutlayer.data import load


def test_limit_keeps_class_shares_and_a_test_part_in_proportion():
    task = load("wine", limit=71)
    assert (len(task.train), len(task.test)) == (71, 18)
    assert len(task.labels) == 89
    assert torch.bincount(task.labels[task.train]).tolist() == pytest.approx([23.5, 28.5, 19], abs=0.5)
    assert len(load("wine", limit=10_000).labels) == 178
