"""Ridge regression against its formula."""

import pytest
import torch

from cutlayer.attacks.tools.ridge import Ridge, best_ridge
from tests.helpers.toy import rng


def normal(*shape, seed):
    return torch.randn(*shape, generator=rng(seed), dtype=torch.float64)


@pytest.mark.parametrize(("rows", "columns"), [(40, 5), (10, 30)])
def test_it_is_the_least_squares_solution_with_a_penalty(rows, columns):
    """(X^T X + c I)^-1 X^T Y in standardised columns, c relative to a row's mean squared length."""
    inputs, values = 3 + normal(rows, columns, seed=1), normal(rows, 2, seed=2)
    scaled = (inputs - inputs.mean(dim=0)) / inputs.std(dim=0, unbiased=False)
    penalty = 0.1 * float(scaled.pow(2).sum(dim=1).mean())
    weights = torch.linalg.solve(
        scaled.T @ scaled + penalty * torch.eye(columns).double(), scaled.T @ (values - values.mean(dim=0))
    )
    torch.testing.assert_close(Ridge.fit(inputs, values, 0.1)(inputs), scaled @ weights + values.mean(dim=0))


def test_without_columns_or_with_constant_ones_it_says_the_mean():
    values = normal(10, 2, seed=1)
    for inputs in (torch.zeros(10, 0).double(), torch.ones(10, 3).double()):
        torch.testing.assert_close(Ridge.fit(inputs, values, 1e-9)(inputs[:1]), values.mean(dim=0)[None])


def test_the_choice_that_does_better_on_held_out_rows_wins_and_the_first_of_equals():
    inputs = normal(60, 4, seed=1)
    values, noise, order = inputs @ normal(4, 2, seed=2), normal(60, 4, seed=3), torch.randperm(60, generator=rng(4))
    place, learned = best_ridge([noise, inputs], values, order)
    assert place == 1
    torch.testing.assert_close(learned(inputs), values, atol=1e-5, rtol=0)
    assert best_ridge([inputs, inputs.clone()], values, order)[0] == 0
