import pytest
import torch

from cutlayer.data import Goal, load
from cutlayer.data.sets.fate import parse as parse_pair
from cutlayer.errors import DataError


def fate_pair(put, stem, label, values):
    guest = [f"{i},{values[i]},{i * 2}," for i in range(len(values))]
    host = [f"{i},{i * 3},{i % 2},1" for i in range(len(values))]
    put(f"fate_vfl_examples/{stem}_hetero_guest.csv", f"id,{label},x0,x1\n" + "\n".join(guest))
    put(f"fate_vfl_examples/{stem}_hetero_host.csv", "id,x0,x1,x2\n" + "\n".join(host))


def test_fate_pairs_keep_who_holds_what(put, any_size):
    fate_pair(put, "vehicle_scale", "y", [3, 0, 1, 2] * 5)
    task = load("fate-vehicle")
    assert task.goal is Goal.MULTICLASS and task.classes == ("0", "1", "2", "3")
    assert [column.name for column in task.features["party1"].columns] == ["guest_x0", "guest_x1"]
    assert task.features["party1"].values[3].tolist() == [6, 0]
    assert task.features["party2"].values[3].tolist() == [9, 1, 1]
    assert task.labels[:4].tolist() == [3, 0, 1, 2]


def test_fate_regression_and_scaling(put, any_size):
    fate_pair(put, "motor", "motor_speed", [0.5 * i for i in range(20)])
    task = load("fate-motor", scaled=True, parties=3, limit=8)
    assert task.goal is Goal.REGRESSION and task.classes == () and task.labels.dtype == torch.float32
    assert (len(task.train), len(task.test)) == (8, 2)
    assert list(task.features) == ["party1", "party2", "party3"]


def test_fate_files_must_hold_the_same_ids():
    with pytest.raises(DataError, match="same ids in the same order"):
        parse_pair(b"id,y,x\n1,0,1\n", b"id,x\n2,1\n", "y", 2)
