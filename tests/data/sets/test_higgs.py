import pytest

from cutlayer.data import load
from cutlayer.errors import DataError


def test_higgs_keeps_its_own_split(put, any_size):
    put("higgs_sample/binary.train", "1\t0.5\t2.0\n0\t1.5\t4.0\n0\t1.5\t4.0\n1\t0.5\t2.0\n")
    put("higgs_sample/binary.test", "1\t0.5\t6.0\n")
    task = load("higgs")
    assert task.train.tolist() == [0, 1, 2, 3] and task.test.tolist() == [4]
    assert task.features["party2"].values.flatten().tolist() == [-1, 1, 1, -1, 3]
    put("higgs_sample/binary.test", "1\tx\t6.0\n")
    with pytest.raises(DataError, match="Expected rows of numbers in the HIGGS sample"):
        load("higgs")
