import gzip

import numpy as np
import pytest
import torch

from cutlayer.data import load
from cutlayer.errors import DataError


def sensorless_file():
    rng = np.random.default_rng(0)
    rows = [" ".join([f"{x:.5g}" for x in rng.normal(size=48)] + [str(1 + i % 11)]) for i in range(55)]
    return gzip.compress(("\n".join(rows) + "\n").encode())


def test_sensorless_is_between_minus_1_and_1_and_dealt_out_at_random(put, any_size):
    put("sensorless_drive/Sensorless_drive_diagnosis.balanced2200.txt.gz", sensorless_file())
    task = load("sensorless")
    both = torch.cat([part.values for part in task.features.values()], dim=1)
    assert both.shape == (55, 48) and (both.amin(0) == -1).all() and (both.amax(0) == 1).all()
    names = [[int(c.name[1:]) for c in part.columns] for part in task.features.values()]
    assert sorted(names[0] + names[1]) == list(range(1, 49)) and names[0] != list(range(1, 25))
    assert torch.bincount(task.labels[task.test]).tolist() == [1] * 11


def test_sensorless_reads_the_full_set_when_asked(put):
    put("sensorless_drive/Sensorless_drive_diagnosis.txt.gz", sensorless_file())
    with pytest.raises(DataError, match="Expected 58509 rows and 48 columns for sensorless, got 55 rows"):
        load("sensorless", full=True)
