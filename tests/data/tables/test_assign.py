import pytest

from tests.helpers.customers import ROWS, load


def test_columns_of_nobody_are_left_out_with_a_note(save):
    task = load(save(), parties={"bank": ["age"], "shop": ["visits"]})
    assert task.notes == ("Left out 2 columns that no party holds: owner, city.",)


def test_a_label_party_may_hold_labels_only(save):
    task = load(save(), label_party="registry")
    assert task.label_party == "registry" and task.feature_parties == ("bank", "shop")
    assert load(save(), label_party="shop").feature_parties == ("bank",)


def test_a_number_of_parties_divides_the_columns_evenly(save):
    task = load(save(), parties=None, coding="integer")
    assert [[c.name for c in task.features[p].columns] for p in ("party1", "party2")] == [
        ["age", "owner"],
        ["city", "visits"],
    ]
    assert len(load(save(), parties=4).features) == 4


@pytest.mark.parametrize("partition", ["even", "random", "importance", "correlation"])
@pytest.mark.parametrize("label", [[row % 2 for row in range(ROWS)], [row / 7 for row in range(ROWS)]])
def test_partitions_hold_every_column_once_and_repeat(save, partition, label):
    path = save(default=label)
    first, second = (load(path, parties=3, partition=partition, coding="integer", seed=4) for _ in range(2))
    names = [described.name for features in first.features.values() for described in features.columns]
    assert sorted(names) == ["age", "city", "owner", "visits"]
    assert [f.columns for f in first.features.values()] == [f.columns for f in second.features.values()]
