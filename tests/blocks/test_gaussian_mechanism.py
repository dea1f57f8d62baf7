"""Noise on a grid: what is sent is a whole number of steps, of the right spread, and the gradient passes."""

import pytest
import torch

from cutlayer.blocks.gaussian_mechanism import blurred, rounding
from cutlayer.blocks.laplace_mechanism import laplace_on_grid
from cutlayer.draws import STEPS, Draws


def test_by_hand():
    payload = torch.tensor([[0.3, -1.7]], dtype=torch.float64)
    steps = Draws(3).discrete_normal((1, 2)) + (payload / (0.5 / STEPS)).round()
    assert torch.equal(blurred(payload, 0.5, Draws(3)), steps * (0.5 / STEPS))


def test_what_is_sent_is_on_the_grid_whatever_was_there():
    payload = Draws(1).normal((1000, 3))
    steps = blurred(payload, 2.0, Draws(2)) / (2.0 / STEPS)
    assert (steps - steps.round()).abs().max() < 1e-6


def test_spread_and_mean():
    sent = blurred(torch.full((200_000,), 5.0), 3.0, Draws(0))
    assert sent.mean().item() == pytest.approx(5.0, abs=0.03) and sent.std().item() == pytest.approx(3.0, rel=0.01)


def test_the_gradient_passes_and_without_noise_nothing_changes():
    payload = torch.tensor([1.0, 2.0], requires_grad=True)
    sent = blurred(payload, 1.0, Draws(0))
    sent.sum().backward()
    assert payload.grad.tolist() == [1, 1] and torch.equal(sent, blurred(payload.detach(), 1.0, Draws(0)))
    assert blurred(payload, 0.0, Draws(0)) is payload


def test_rounding_moves_two_payloads_apart_by_no_more_than_is_counted():
    first, second = Draws(1).normal((500, 40)), Draws(2).normal((500, 40))
    grid = 3.0 / STEPS
    before, after = (first - second).norm(dim=1), ((first / grid).round() - (second / grid).round()).norm(dim=1) * grid
    assert (after - before).max() <= 3.0 * rounding(40)


def test_discrete_laplace_has_the_ratios_that_its_epsilon_says():
    drawn = laplace_on_grid(torch.zeros(400_000), 2.0, 1.0, Draws(5))
    counts = torch.bincount((drawn + 10).clamp(0, 20).long(), minlength=21).double()
    assert (drawn == drawn.round()).all()
    for k in range(7, 13):
        if k != 10:
            assert (counts[10] / counts[k]).log().item() == pytest.approx(abs(k - 10) / 2, abs=0.03)
