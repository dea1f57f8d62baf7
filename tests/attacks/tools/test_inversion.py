"""Roughness of images and the objective of an inversion, by hand."""

import pytest
import torch
from torch import nn

from cutlayer.attacks.tools.inversion import descend, misfit, total_variation
from tests.helpers.toy import rng


class Total(nn.Module):
    """The sum of a row's pixels."""

    def forward(self, x):
        return x.flatten(1).sum(dim=1, keepdim=True)


def test_total_variation_by_hand():
    image = torch.tensor([[[[0.0, 1.0, 3.0], [0.0, 0.0, 0.0]]]])  # down: 0, 1, 9; across: 1, 4, 0, 0
    assert total_variation(image).tolist() == pytest.approx([10 / 3 + 5 / 4])
    assert total_variation(torch.rand(2, 3, 1, 1, generator=rng())).tolist() == [0, 0]


def test_total_variation_of_both_forms_by_hand():
    """Down: 3, 0; across: 4, 1. Roots, pixel by pixel: 5, 0, 1, 0."""
    image = torch.tensor([[[[1.0, 5.0], [4.0, 5.0]]]])
    assert total_variation(image, "paper").tolist() == pytest.approx([5 + 0 + 1 + 0], abs=1e-5)
    assert total_variation(image, "code").tolist() == pytest.approx([(9 + 0) / 2 + (16 + 1) / 2])
    channels = torch.cat([image, torch.zeros_like(image)], dim=1)
    assert total_variation(channels, "paper").tolist() == pytest.approx([6], abs=1e-5)


def test_a_flat_image_has_a_gradient():
    flat = torch.full((2, 1, 3, 3), 0.5, requires_grad=True)
    (gradient,) = torch.autograd.grad(total_variation(flat, "paper").sum(), flat)
    assert gradient.abs().max() == 0


def test_the_objective_by_hand():
    x, target = torch.tensor([[[[1.0, 2.0]]], [[[0.0, 0.0]]]]), torch.tensor([[0.0, 0.0], [1.0, 3.0]])
    values = misfit(nn.Flatten(), x, target, tv=2.0, l2=3.0, relative=False)
    assert values.tolist() == pytest.approx([2.5 + 2 * 1 + 3 * 2.5, 5.0])
    relative = misfit(nn.Flatten(), x, target, tv=2.0, l2=3.0)  # the mean of H^2 is 2.5
    assert relative.tolist() == pytest.approx([1 + 2 * 1 + 3 * 2.5, 2.0])
    assert misfit(nn.Flatten(), x, torch.zeros(2, 2), tv=0.1, l2=0.1).isfinite().all()


@pytest.mark.parametrize(("form", "tv"), [("paper", 5 + 5 + 4 + 0), ("code", (9 + 25) / 2 + (16 + 16) / 2)])
def test_the_objective_of_both_forms_by_hand(form, tv):
    """f sums the pixels: (10 - 1)^2 = 81; the mean of squares is 42 / 4."""
    x = torch.tensor([[[[1.0, 5.0], [4.0, 0.0]]]])  # down 3, -5; across 4, -4
    wanted = torch.tensor([[1.0]])
    value = misfit(Total(), x, wanted, tv=2.0, l2=3.0, relative=False, form=form)
    assert value.tolist() == pytest.approx([81 + 2 * tv + 3 * 42 / 4], abs=1e-4)


def test_the_search_goes_down_and_stays_inside_the_box():
    start, goal = torch.zeros(2, 1), torch.tensor([[0.5], [3.0]])
    ends, values = descend(lambda x: (x - goal).pow(2).sum(dim=1), start, steps=300, lr=0.05, eps=1e-3, box=(0.0, 1.0))
    assert ends.flatten().tolist() == pytest.approx([0.5, 1.0], abs=1e-2)
    assert values.tolist() == pytest.approx([0.0, 4.0], abs=1e-2) and not start.any()
