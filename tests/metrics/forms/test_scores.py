import pytest
import torch

from cutlayer.finding import Form
from cutlayer.metrics.forms import measure_of
from tests.helpers.cases import case

LABELS = torch.tensor([1, 0, 0, 1, 0, 0, 1, 1, 1])
SCORES = torch.tensor([0.9, 0.1, 0.2, 0.1, 0.9, 0.2, 5, 6, 7.0])


def test_auc_is_averaged_per_batch_and_batches_of_one_class_are_skipped():
    score = measure_of(Form.SCORES).score(case(Form.SCORES, SCORES, labels=LABELS, groups=torch.arange(9) // 3))
    assert score.value == pytest.approx(0.5)  # 1.0 and 0.0
    assert (score.baseline, score.baseline_name) == (0.5, "chance")


def test_without_batches_all_rows_are_ranked_together():
    score = measure_of(Form.SCORES).score(case(Form.SCORES, SCORES, labels=LABELS))
    better = sum((a > b) + (a == b) / 2 for a in SCORES[LABELS == 1] for b in SCORES[LABELS == 0])
    assert score.value == pytest.approx(float(better) / 20) and score.extras["roc"]["tpr"][-1] == 1


def test_an_auc_below_one_half_is_turned_around():
    measure = measure_of(Form.SCORES)
    assert measure.error(0.2) == pytest.approx(measure.error(0.8)) == pytest.approx(0.2)
