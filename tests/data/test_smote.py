import numpy as np
import pytest

from cutlayer.data.smote import resample, smote
from cutlayer.errors import ConfigError


@pytest.fixture
def line():
    """Class 1 lies on y = x between 0 and 5, class 0 elsewhere."""
    rare = np.arange(6.0)
    values = np.concatenate([np.random.default_rng(0).normal(20, 1, (30, 2)), np.stack([rare, rare], 1)])
    return values, np.array([0] * 30 + [1] * 6)


def test_made_rows_lie_between_rows_of_their_class(line):
    values, labels = smote(*line, np.random.default_rng(0), neighbours=2)
    assert np.bincount(labels).tolist() == [30, 30]
    assert np.array_equal(values[:36], line[0])
    synthetic = values[36:]
    assert np.allclose(synthetic[:, 0], synthetic[:, 1])
    assert synthetic.min() >= 0 and synthetic.max() <= 5
    assert len(np.unique(synthetic[:, 0])) == 24


def test_a_class_of_one_row_is_repeated():
    values, labels = smote(np.array([[1.0], [2.0], [3.0]]), np.array([0, 0, 1]), np.random.default_rng(0))
    assert values.tolist() == [[1], [2], [3], [3]]
    assert labels.tolist() == [0, 0, 1, 1]


def test_before_the_split_both_parts_are_balanced(line):
    data = resample(*line, mode="before", scaled=False, test=0.5, seed=0)
    assert [np.bincount(data.labels[part]).tolist() for part in data.parts] == [[15, 15], [15, 15]]


def test_on_training_rows_the_test_part_stays_real(line):
    data = resample(*line, mode="train", scaled=False, test=0.5, seed=0)
    train, test = data.parts
    assert np.bincount(data.labels[train]).tolist() == [15, 15]
    assert np.bincount(data.labels[test]).tolist() == [15, 3]
    assert int(test.max()) < 36


def test_scaling_uses_training_rows_and_comes_first(line):
    data = resample(*line, mode="none", scaled=True, test=0.5, seed=0)
    assert np.allclose(data.values[data.parts[0]].mean(axis=0), 0)
    assert data.notes == ("columns standardised on training rows, before any SMOTE",)


def test_modes_are_a_closed_set(line):
    with pytest.raises(ConfigError, match="before, train, none"):
        resample(*line, mode="after", scaled=False, test=0.5, seed=0)
