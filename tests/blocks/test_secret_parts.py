"""A model that is granted shows its weights, and keeps what its modules call secret."""

import torch
from torch import nn

from cutlayer.blocks.secret_parts import HoldsSecret, without_secrets
from tests.helpers.toy import draws


class Salted(nn.Linear):
    """A layer that adds a number that only its owner knows."""

    def __init__(self, width):
        super().__init__(width, width)
        self.salt = 7.0

    def forget_secret(self, rng):
        self.salt = float(rng.uniform(()))


def test_secrets_are_replaced_in_a_copy_and_weights_stay():
    model = nn.Sequential(nn.Linear(2, 2), nn.Sequential(Salted(2)))
    granted = without_secrets(model, draws(1))
    assert model[1][0].salt == 7.0 and 0 <= granted[1][0].salt < 1
    assert torch.equal(model[1][0].weight, granted[1][0].weight) and granted[1][0].weight is not model[1][0].weight
    assert isinstance(granted[1][0], HoldsSecret) and not isinstance(granted[0], HoldsSecret)


def test_each_secret_gets_a_guess_of_its_own():
    granted = without_secrets(nn.Sequential(Salted(2), Salted(2)), draws(1))
    assert granted[0].salt != granted[1].salt
