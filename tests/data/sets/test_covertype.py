import pytest

from cutlayer.data import load
from cutlayer.data.sets.covertype import parse as parse_covertype
from cutlayer.errors import DataError
from tests.helpers.dataset_files import FILES, covertype_file


def test_covertype_gives_the_wilderness_indicators_away(put, any_size):
    put(*FILES["covertype"][:2])
    task = load("covertype")
    names = [column.name for column in task.features["party2"].columns]
    assert names[:1] + names[6:] == [
        "vertical_distance_to_hydrology",
        *(f"wilderness_area_{n}" for n in range(1, 5)),
    ]
    assert task.features["party2"].values[:, 6:].sum(dim=1).tolist() == [1.0] * 30
    assert task.labels[:8].tolist() == [0, 1, 2, 3, 4, 5, 6, 0]


@pytest.mark.parametrize("damage", [(b",", b",x,"), (b"2000,", b""), (b"2000", b"20.5")])
def test_covertype_refuses_other_rows(damage):
    with pytest.raises(DataError, match=r"covtype\.data"):
        parse_covertype(covertype_file().replace(*damage, 1))
