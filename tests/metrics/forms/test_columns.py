import pytest
import torch

from cutlayer.errors import Inapplicable
from cutlayer.finding import Form
from cutlayer.metrics.forms import measure_of
from tests.helpers.cases import case

MEASURE = measure_of(Form.COLUMNS)
TRUTH = torch.tensor([[7.0, 0.0, 0.1], [-1.0, 0.0, 0.2], [7.0, 0.0, 0.3], [-1.0, 1.0, 0.4]])


@pytest.mark.parametrize("claimed", [[1, 0, 1, 0], [0, 1, 0, 1]])
def test_a_column_is_known_up_to_complement(claimed):
    """One of two columns exactly, the other at its commoner value, on three of four rows; the third has four values."""
    score = MEASURE.score(case(Form.COLUMNS, torch.tensor(claimed)[:, None], features=lambda: TRUTH))
    assert score.value == pytest.approx((1 + 0.75) / 2) and score.baseline == pytest.approx((0.5 + 0.75) / 2)
    assert score.figures == {"exact": 1, "columns": 2, "claimed": 1, "first": 100.0}
    assert score.extras["columns"] == {"places": [0, 1], "value": [1.0, 0.75], "baseline": [0.5, 0.75]}
    wanted = "1 of 2 two-valued columns exact, 1 claimed, the first right on 100.00% of rows"
    assert MEASURE.sentence(score.figures) == wanted


def test_who_claims_nothing_is_at_the_baseline():
    score = MEASURE.score(case(Form.COLUMNS, torch.zeros(4, 0), features=lambda: TRUTH))
    assert score.value == score.baseline and "first" not in score.figures
    assert MEASURE.sentence(score.figures) == "0 of 2 two-valued columns exact, 0 claimed"


def test_without_two_valued_columns_it_does_not_apply():
    with pytest.raises(Inapplicable, match="binary-only: bank has no two-valued column"):
        MEASURE.score(case(Form.COLUMNS, torch.zeros(4, 1), features=lambda: TRUTH[:, 2:]))
