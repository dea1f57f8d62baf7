import pytest
import torch

from cutlayer.data.task import ColumnKind
from tests.helpers.customers import ROWS, column, customers, load


def test_one_hot_columns_name_their_source(save):
    shop = load(save()).features["shop"]
    assert [(column.name, column.source, column.levels) for column in shop.columns] == [
        ("city=Bonn", "city", 0),
        ("city=Kiel", "city", 0),
        ("city=Ulm", "city", 0),
        ("visits", "", 0),
    ]
    assert shop.values[:3, :3].tolist() == torch.eye(3).tolist()


def test_integer_coding_counts_levels_and_one_for_the_unseen(save):
    task = load(save(), coding="integer")
    described = task.features["shop"].columns[0]
    assert (described.kind, described.levels, described.source) == (ColumnKind.CATEGORICAL, 4, "")
    assert column(task, "shop", "city")[:3].tolist() == [0, 1, 2]


@pytest.mark.parametrize("coding", ["onehot", "integer"])
@pytest.mark.parametrize("scaling", ["standard", "minmax", "none"])
def test_binary_columns_stay_zero_and_one(save, coding, scaling):
    task = load(save(age=[7 if row % 5 else 3 for row in range(ROWS)]), coding=coding, scaling=scaling, valid=0.1)
    assert column(task, "bank", "owner").tolist() == [float(row % 3 > 0) for row in range(ROWS)]
    assert column(task, "bank", "age").tolist() == [float(row % 5 > 0) for row in range(ROWS)]
    assert all(described.kind is ColumnKind.BINARY for described in task.features["bank"].columns)


def test_booleans_are_binary_and_few_whole_numbers_stay_numeric(save):
    task = load(
        save(owner=[row % 3 == 0 for row in range(ROWS)], age=[row % 3 for row in range(ROWS)]),
        scaling="none",
    )
    assert [described.kind for described in task.features["bank"].columns] == [
        ColumnKind.NUMERIC,
        ColumnKind.BINARY,
    ]
    assert column(task, "bank", "owner")[:4].tolist() == [1, 0, 0, 1]
    assert column(task, "bank", "age")[:4].tolist() == [0, 1, 2, 0]


def test_scales_are_those_of_the_training_rows(save):
    path = save()
    raw = column(load(path, scaling="none"), "shop", "visits")
    task = load(path)
    seen = raw[task.train].double()
    standard = (raw.double() - seen.mean()) / seen.std(correction=0)
    assert torch.allclose(column(task, "shop", "visits").double(), standard, atol=1e-5)
    minmax = column(load(path, scaling="minmax"), "shop", "visits")[task.train]
    assert minmax.min() == 0 and minmax.max() == 1


def test_unseen_levels_are_zero_or_a_code_of_their_own(save):
    rows = load(save()).test.tolist()
    cities = customers()["city"]
    cities[rows[0]] = "Jena"
    path = save(city=cities)
    task = load(path)
    assert task.features["shop"].values[rows[0], :3].tolist() == [0, 0, 0]
    assert column(load(path, coding="integer"), "shop", "city")[rows[0]] == 3
    assert task.notes == ("Column 'city' holds levels in 1 rows that no training row has.",)
