"""Metrics against numbers checked by hand and against scikit-learn."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics as reference

from cutlayer.metrics import utility


def test_auc_by_hand():
    """Positives 0.8 and 0.4 against negatives 0.5 and 0.4: wins 1 + 1 + 0 + a half, of 4."""
    assert utility.auc(np.array([1, 0, 1, 0]), np.array([0.8, 0.5, 0.4, 0.4])) == pytest.approx(2.5 / 4)


def test_auc_of_one_class_is_not_a_number():
    assert np.isnan(utility.auc(np.array([1, 1]), np.array([0.1, 0.2])))


def test_balanced_accuracy_by_hand():
    """Class 0: 3 of 4 right; class 1: 0 of 1."""
    labels, predicted = np.array([0, 0, 0, 0, 1]), np.array([0, 0, 0, 1, 0])
    assert utility.accuracy(labels, predicted) == pytest.approx(0.6)
    assert utility.balanced_accuracy(labels, predicted) == pytest.approx(0.375)


def test_log_loss_by_hand():
    """Logits (0, ln 3) give class 1 a probability of 3/4."""
    assert utility.log_loss(np.array([1]), np.array([[0.0, np.log(3)]])) == pytest.approx(-np.log(0.75))


def test_r2_by_hand():
    """Errors 0, 0, 1 of a target 1, 2, 3 whose variance is 2/3: R2 = 1 - (1/3)/(2/3)."""
    assert utility.r2(np.array([1.0, 2, 3]), np.array([1.0, 2, 2])) == pytest.approx(0.5)
    assert np.isnan(utility.r2(np.array([1.0, 1.0]), np.array([1.0, 1.0])))


@given(st.integers(0, 2**32 - 1), st.integers(2, 4))
def test_against_scikit_learn(seed, classes):
    rng = np.random.default_rng(seed)
    labels = np.concatenate([np.arange(classes), rng.integers(0, classes, 40)])
    logits = rng.normal(size=(len(labels), classes))
    if classes == 2:
        logits = logits.round(1)  # so that scores tie
    scores = utility.classification(labels, logits)
    shares = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    assert scores["accuracy"] == pytest.approx(reference.accuracy_score(labels, logits.argmax(1)))
    assert scores["balanced_accuracy"] == pytest.approx(reference.balanced_accuracy_score(labels, logits.argmax(1)))
    assert scores["log_loss"] == pytest.approx(reference.log_loss(labels, shares))
    if classes == 2:
        assert scores["auc"] == pytest.approx(reference.roc_auc_score(labels, logits[:, 1] - logits[:, 0]))
    else:
        assert scores["auc"] == pytest.approx(reference.roc_auc_score(labels, shares, multi_class="ovr"))
