import pytest
import torch

from cutlayer.attack import Form
from cutlayer.attacks import DirectionScore
from cutlayer.errors import ConfigError, RunError
from cutlayer.view import Known
from tests.helpers.toy import auc, gradient_view, rng, world

FIRST = torch.tensor([[3.0, 4.0], [-0.6, -0.8], [0.0, 0.0]])
SECOND = torch.tensor([[4.0, -3.0], [0.0, 2.0]])
BATCHES = [(torch.tensor([7, 2, 5]), FIRST), (torch.tensor([4, 9]), SECOND)]


def known(rows, values):
    return Known(torch.tensor(rows), torch.tensor(values))


def test_cosines_with_one_known_positive_by_hand():
    """Row 7 points along (0.6, 0.8); row 2 against it, row 4 across, row 9 at cosine 0.8; row 5 is zero."""
    guess = DirectionScore().run(gradient_view(BATCHES, known([2, 7], [0, 1])), rng())
    assert guess.form is Form.SCORES and guess.rows.tolist() == [7, 2, 5, 4, 9]
    assert guess.values.tolist() == pytest.approx([1, -1, 0, 0, 0.8], abs=1e-6)
    assert guess.groups.tolist() == [0, 0, 0, 1, 1]


def test_several_known_positives_are_averaged():
    guess = DirectionScore(positives=2).run(gradient_view(BATCHES, known([2, 5, 7, 9], [0, 0, 1, 1])), rng())
    by_hand = [(1 + 0.8) / 2, (-1 - 0.8) / 2, 0, (0 - 0.6) / 2, (0.8 + 1) / 2]
    assert guess.values.tolist() == pytest.approx(by_hand, abs=1e-6)


def test_size_does_not_matter_down_to_the_smallest_numbers():
    view = gradient_view([(rows, payload * 1e-35) for rows, payload in BATCHES], known([7], [1]))
    assert DirectionScore().run(view, rng()).values.tolist() == pytest.approx([1, -1, 0, 0, 0.8], abs=1e-6)


def test_a_received_positive_is_used_as_it_came():
    flipped = [(BATCHES[0][0], FIRST * torch.tensor([[-1.0], [1.0], [1.0]])), BATCHES[1]]
    values = DirectionScore().run(gradient_view(flipped, known([7], [1])), rng()).values
    assert values.tolist() == pytest.approx([1, 1, 0, 0, -0.8], abs=1e-6)


@pytest.mark.parametrize("positives", [1, 3])
def test_one_direction_gives_labels_away_and_shuffled_labels_do_not(positives):
    attack, scores = DirectionScore(positives=positives), {}
    for sealed in (False, True):
        toy = world(sealed=sealed)
        view = toy.view_for(attack)
        guess = attack.run(view, rng())
        fresh = ~torch.isin(guess.rows, view.hints.labels.rows)
        assert int((view.hints.labels.values == 1).sum()) == positives
        scores[sealed] = auc(toy.labels[guess.rows[fresh]], guess.values[fresh])
    assert scores[False] > 0.85
    assert scores[True] == pytest.approx(0.5, abs=0.12)


def test_a_positive_must_be_known_and_have_been_trained_on():
    for hint in (None, known([2], [0]), known([99], [1])):
        with pytest.raises(RunError, match="known positive"):
            DirectionScore().run(gradient_view(BATCHES, hint), rng())
    with pytest.raises(ConfigError):
        DirectionScore(positives=0)


def test_asks_and_applies():
    assert DirectionScore(positives=3).asks.labels == 6
    assert DirectionScore().applies(world().manifest) is None
    assert DirectionScore().applies(world(3).manifest) == "binary-only"
