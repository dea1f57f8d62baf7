from cutlayer.data import load
from tests.helpers.dataset_files import FILES


def test_categories_are_alphabetical_codes_between_0_and_1(put, any_size):
    put(*FILES["nursery"][:2])
    task = load("nursery")
    held = task.features["party2"]
    assert [column.name for column in held.columns][:2] == ["parents", "has_nurs"]
    assert held.values[:4, 0].tolist() == [0, 1, 0, 1] and held.values[:4, 1].tolist() == [0, 0.5, 1, 0]
    assert task.classes == ("no", "yes")
