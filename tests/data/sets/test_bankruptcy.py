import pytest
import torch

from cutlayer.data import load
from cutlayer.errors import ConfigError


def test_bankruptcy_is_raw_and_balanced_unless_told(put, any_size):
    rows = [f"{int(i < 4)},{i}000000000,{i % 3},{i}" for i in range(40)]
    put("company_bankruptcy/data.csv", "Bankrupt?, Size, Flag, Ratio\n" + "\n".join(rows))
    task = load("bankruptcy")
    assert torch.bincount(task.labels).tolist() == [36, 36]
    assert [column.name for part in task.features.values() for column in part.columns] == [
        "Size",
        "Flag",
        "Ratio",
    ]
    assert float(task.features["party1"].values.max()) == pytest.approx(39e9)
    plain = load("bankruptcy", smote="none", scaled=True)
    assert torch.bincount(plain.labels).tolist() == [36, 4] and len(plain.test) == 12
    assert abs(float(plain.features["party1"].values[plain.train].mean())) < 1e-6
    with pytest.raises(ConfigError, match="Unknown smote 'after'"):
        load("bankruptcy", smote="after")
