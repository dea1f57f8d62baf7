"""Checks on the real files, for machines that hold them: set CUTLAYER_DATA."""

import os

import pytest
import torch

from cutlayer.data import describe, load
from cutlayer.errors import DataError

pytestmark = pytest.mark.skipif(not os.environ.get("CUTLAYER_DATA"), reason="CUTLAYER_DATA is not set")

TWO_VALUED = {
    "bank": ["contact"],
    "credit": ["SEX"],
    "mushroom": ["bruises", "gill-attachment", "gill-spacing", "gill-size", "stalk-shape"],
    "nursery": ["finance"],
    "covertype": [f"wilderness_area_{number}" for number in range(1, 5)],
}


@pytest.mark.parametrize("name", TWO_VALUED)
def test_the_feature_party_has_the_two_valued_columns_of_the_paper_and_full_rank(name):
    features = load(name).features["party2"]
    values = features.values.double()
    counts = [len(column.unique()) for column in values.T]
    assert [c.name for c, count in zip(features.columns, counts, strict=True) if count == 2] == TWO_VALUED[name]
    assert int(torch.linalg.matrix_rank(values.T @ values)) == values.shape[1]


@pytest.mark.parametrize("about", describe(), ids=lambda about: about.name)
def test_every_dataset_loads(about, monkeypatch):
    def refuse(url, timeout):
        raise OSError("no network in tests")

    monkeypatch.setattr("urllib.request.urlopen", refuse)
    try:
        task = load(about.name, limit=100)
    except DataError as error:
        if "Set CUTLAYER_DATA" not in str(error):
            raise
        pytest.skip(str(error))
    assert len(task.classes) == about.classes
    assert 100 <= len(task.train) <= 100 + about.classes
