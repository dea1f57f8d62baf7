import pytest
import torch

from cutlayer.errors import CutlayerError
from cutlayer.finding import Form
from cutlayer.metrics.forms import measure_of
from tests.helpers.cases import case

MEASURE = measure_of(Form.SUBMISSIONS)


def predict(sent):
    """Class 1 where the attacker submits a positive number; honest parties bring about class 0, but for row 0."""
    numbers = sent["shop"][:, 0] if sent else torch.tensor([1.0, -1.0, -1.0, -1.0])
    return torch.stack([-numbers, numbers], dim=1), numbers > 2


def test_forced_outcomes_stand_beside_honest_ones():
    values = torch.tensor([[1.0], [3.0], [1.0], [-1.0]])
    score = MEASURE.score(case(Form.SUBMISSIONS, values, wanted=1, predict=predict))
    assert (score.value, score.baseline, score.figures) == (0.75, 0.25, {"flagged": 1})
    assert score.baseline_name == "honest submissions; 1 of 4 rows flagged"


def test_a_run_that_cannot_predict_is_refused():
    with pytest.raises(CutlayerError, match="a run that can predict"):
        MEASURE.score(case(Form.SUBMISSIONS, torch.ones(2, 1)))
