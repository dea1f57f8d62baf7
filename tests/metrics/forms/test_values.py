import pytest
import torch

from cutlayer.finding import Form
from cutlayer.metrics.forms import measure_of
from tests.helpers.cases import case

MEASURE = measure_of(Form.VALUES)


def test_squared_errors_by_hand_beside_the_training_mean():
    """Errors per row: (0 + 4) / 2 and (1 + 1) / 2. Two rows are few, so the mean is that of the training rows."""
    truth, values = torch.tensor([[0.0, 2.0], [1.0, 3.0]]), torch.tensor([[0.0, 0.0], [2.0, 2.0]])
    score = MEASURE.score(case(Form.VALUES, values, features=lambda: truth, mean=lambda: torch.tensor([0.0, 1.0])))
    assert score.value == pytest.approx(1.5) and score.baseline_name == "mean row"
    assert score.baseline == pytest.approx((0 + 1 + 1 + 4) / 4)
    assert score.extras["columns"] == {"places": [0, 1], "value": [0.5, 2.5], "baseline": [0.25, 0.25]}
    assert MEASURE.error(1.5) == 1.5


def test_correlations_that_are_off_are_a_figure_and_a_sentence():
    """The truth's columns go together, the guess's against each other: 2 off, for two of four pairs."""
    truth, values = torch.tensor([[0.0, 0], [1, 1]]), torch.tensor([[0.0, 1], [1, 0]])
    score = MEASURE.score(case(Form.VALUES, values, features=lambda: truth, mean=lambda: torch.zeros(2)))
    assert score.figures == {"off": 1.0}
    assert MEASURE.sentence(score.figures) == "correlations of columns off by 1.000 on average"


def test_guesses_in_no_order_are_paired_within_their_group():
    truth = torch.tensor([[0.0], [1.0], [5.0], [6.0]])
    facts = {"features": lambda: truth, "groups": torch.tensor([0, 0, 1, 1]), "mean": lambda: torch.zeros(1)}
    swapped = torch.tensor([[1.0], [0.0], [6.0], [5.0]])
    assert MEASURE.score(case(Form.VALUES, swapped, unordered=True, **facts)).value == 0
    assert MEASURE.score(case(Form.VALUES, swapped, **facts)).value == 1
    across = torch.tensor([[5.0], [1.0], [0.0], [6.0]])  # not exchanged between groups
    assert MEASURE.score(case(Form.VALUES, across, unordered=True, **facts)).value > 1


def test_of_pictures_a_few_are_kept():
    truth = torch.rand(12, 1, 2, 2, generator=torch.Generator().manual_seed(0))
    score = MEASURE.score(case(Form.VALUES, truth, features=lambda: truth, mean=lambda: truth.mean(0)))
    assert score.value == 0 and list(score.extras) == ["shown"] and len(score.extras["shown"]["guess"]) == 8
