import pytest

from cutlayer.data import ColumnKind, load
from cutlayer.errors import DataError


def test_porto_seguro_scales_by_training_rows(put, any_size):
    rows = [f"{i},{int(i % 5 == 0)},{i},{i % 2}" for i in range(50)]
    put(
        "porto_seguro/porto_seguro_train_first10000.csv",
        "id,target,ps_ind_01,ps_ind_06_bin\n" + "\n".join(rows),
    )
    task = load("porto-seguro")
    held = task.features["party1"].values[task.train]
    assert float(held.min()) == 0 and float(held.max()) == 1
    assert task.features["party2"].columns[0].kind is ColumnKind.BINARY


def test_empty_cells_are_refused_where_a_set_has_none(put, any_size):
    put("porto_seguro/porto_seguro_train_first10000.csv", "id,target,a,b\n1,0,,1\n2,1,3,1\n3,0,3,1\n4,1,3,1\n")
    with pytest.raises(DataError, match="Expected a number in every cell of porto-seguro"):
        load("porto-seguro")
