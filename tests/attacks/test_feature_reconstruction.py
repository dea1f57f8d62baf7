"""Reconstruction of features: better than the mean row where what the attacker saw determines the columns."""

import torch

from cutlayer.attack import Form
from cutlayer.attacks import FeatureReconstruction
from tests.helpers.toy import FEATURE, OTHER, rng, world


def test_it_answers_with_rows_of_the_victims_shape():
    toy, attack = world(3), FeatureReconstruction(shadow=80, runs=2, rounds=4)
    view = toy.view_for(attack)
    guess = attack.run(view, rng())
    truth = toy.features[OTHER][guess.rows]
    assert guess.form is Form.VALUES and guess.values.shape == truth.shape


def test_columns_that_follow_from_own_columns_are_found():
    """The victim's rows become a linear function of the attacker's, so records contain them."""
    toy, attack = world(3), FeatureReconstruction(shadow=80, runs=2, rounds=30)
    view = toy.view_for(attack)
    linear = toy.features[FEATURE][:, :5] * 2 - 1
    shadow = view.hints.shadow
    shadow.features[OTHER] = linear[shadow.rows]
    guess = attack.run(view, rng())
    error = (guess.values - linear[guess.rows]).square().mean()
    assert error < 0.5 * linear.var(dim=0).mean()
    assert torch.isfinite(error)
