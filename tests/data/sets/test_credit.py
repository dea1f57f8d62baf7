from cutlayer.data import load
from tests.helpers.dataset_files import FILES


def test_more_parties_share_the_feature_columns(put, any_size):
    put(*FILES["credit"][:2])
    task = load("credit", parties=3, label_party="server")
    assert [part.values.shape[1] for part in task.features.values()] == [13, 5, 5]
    assert task.feature_parties == ("party1", "party2", "party3")
