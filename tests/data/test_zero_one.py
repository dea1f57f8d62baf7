import pytest

from cutlayer.data import load
from cutlayer.errors import DataError
from tests.helpers.dataset_files import FILES


@pytest.mark.parametrize("name", FILES)
def test_a_file_cut_short_is_refused(put, name):
    path, content, counts = FILES[name]
    put(path, content)
    with pytest.raises(DataError, match=rf"Expected \d+ rows and \d+ columns for {name}, got {counts}"):
        load(name)


@pytest.mark.parametrize(
    ("name", "width"), [("bank", 8), ("credit", 10), ("mushroom", 15), ("nursery", 6), ("covertype", 10)]
)
def test_the_first_columns_go_to_the_feature_party_in_0_1(put, any_size, name, width):
    put(*FILES[name][:2])
    task = load(name)
    assert task.label_party == "party1" and task.feature_parties == ("party2",)
    features = task.features["party2"]
    assert features.values.shape[1] == len(features.columns) == width
    assert float(features.values.min()) == 0 and float(features.values.max()) == 1
    rows = len(task.labels)
    assert len(task.test) == round(rows / 10) and len(task.train) == rows - len(task.test)
