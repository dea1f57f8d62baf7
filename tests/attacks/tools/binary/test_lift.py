import numpy as np
import pytest
import torch

from cutlayer.attacks.tools.binary.clock import Clock
from cutlayer.attacks.tools.binary.lift import fit, gather, measure
from cutlayer.attacks.tools.binary.polish import unit, weights
from cutlayer.attacks.tools.binary.span import span_of
from tests.helpers.binary_tables import table


def test_the_gradient_of_the_misfit_is_autograds():
    rng = np.random.default_rng(0)
    points, matrix, vector = (rng.standard_normal(s).astype(np.float32) for s in ((50, 4), (4, 4), (4,)))
    weight = weights(points)
    slope, slope_vector = gather(points, weight * (measure(points, matrix, vector) - 1))
    x, a, v = (torch.tensor(t, dtype=torch.float64) for t in (points, matrix, vector))
    a.requires_grad_(), v.requires_grad_()
    error = torch.einsum("ij,jk,ik->i", x, a, x) + x @ v - 1
    (torch.tensor(weight, dtype=torch.float64) * error**2).sum().div(2).backward()
    assert slope == pytest.approx(a.grad.numpy(), abs=1e-5) and slope_vector == pytest.approx(v.grad.numpy(), abs=1e-5)


def test_the_strongest_eigenvectors_lean_towards_halves_and_away_from_what_was_found():
    """Rank 40 has 861 unknowns: too many for 700 rows to solve for, not too many for a positive matrix."""
    columns, bits = table(700, 40, shares=(0.4, 0.5, 0.6))
    points = span_of(columns, centred=True).basis * 700**0.5
    truth = unit(points.T @ (bits.T - bits.mean(axis=1)))
    top = fit(points.astype(np.float32), 150, np.zeros((40, 0), np.float32), Clock(60))[:, :5]
    assert ((top.T @ truth) ** 2).sum(axis=0).min() > 0.4
    first = fit(points.astype(np.float32), 150, truth[:, 1:].astype(np.float32), Clock(60))[:, 0]
    assert (first @ truth[:, 0]) ** 2 > 0.4
