import pytest
import torch

from cutlayer.finding import Form
from cutlayer.metrics.forms import measure_of
from tests.helpers.cases import case


def test_accuracy_stands_beside_the_majority_class():
    guess = case(Form.CLASSES, torch.tensor([0, 1, 2, 2]), labels=torch.tensor([0, 2, 2, 2]))
    score = measure_of(Form.CLASSES).score(guess)
    assert (score.value, score.baseline, score.baseline_name) == (0.75, 0.75, "majority class")
    assert score.low < 0.75 < score.high and measure_of(Form.CLASSES).sentence(score.figures) == ""
    assert measure_of(Form.CLASSES).error(0.75) == pytest.approx(0.25)
