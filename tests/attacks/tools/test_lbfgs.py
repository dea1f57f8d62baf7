"""Batched L-BFGS: known minima, and no problem that moves another."""

import pytest
import torch

from cutlayer.attacks.tools.lbfgs import minimise


def rosenbrock(x):
    return 100 * (x[:, 1] - x[:, 0].square()).square() + (1 - x[:, 0]).square()


STARTS = torch.tensor([[-1.2, 1.0], [0.0, 0.0], [2.0, -2.0], [-3.0, 4.0]], dtype=torch.float64)


@pytest.mark.parametrize("history", [10, 50])
def test_a_long_valley_is_walked_to_its_end(history):
    bends = torch.logspace(0, 4, 20, dtype=torch.float64)
    middle = torch.linspace(-1, 1, 20, dtype=torch.float64)
    start = torch.stack([torch.zeros_like(middle), 3 * middle + 1])
    x, value = minimise(lambda x: (bends * (x - middle).square()).sum(dim=1), start, steps=350, history=history)
    assert value.max() < 1e-8
    torch.testing.assert_close(x, middle.expand(2, 20), atol=1e-4, rtol=0)


def test_rosenbrocks_valley_from_several_starts_at_once():
    x, value = minimise(rosenbrock, STARTS, steps=100)
    torch.testing.assert_close(x, torch.ones_like(x), atol=1e-8, rtol=0)
    assert value.shape == (4,) and value.max() < 1e-16


@pytest.mark.parametrize("steps", [4, 20, 60])
def test_no_problem_changes_the_path_of_another(steps):
    x, value = minimise(rosenbrock, STARTS, steps=steps)
    for number, start in enumerate(STARTS):
        alone = minimise(rosenbrock, start[None], steps=steps)
        torch.testing.assert_close((x[number : number + 1], value[number : number + 1]), alone)


def test_what_is_no_number_is_a_failed_step():
    def fenced(x):
        return torch.where(x.abs().amax(dim=1) > 1.25, torch.nan, (x - torch.tensor([3.0, 0.5])).square().sum(dim=1))

    x, value = minimise(fenced, torch.tensor([[0.0, 0.0], [1.0, -1.0], [2.0, 2.0]]), steps=100)
    assert x.isfinite().all() and x[:2].abs().max() <= 1.25
    assert value[0] < 9.25 / 2 and value[1] < 6.25  # the values of the starts
    assert x[2].tolist() == [2, 2] and value[2] == torch.inf  # no number from the start: it stays there


def test_a_point_that_all_ways_lead_up_from_is_kept():
    calls = []

    def island(x):
        calls.append(len(x))
        return torch.where((x == 1).all(dim=1), x.sum(dim=1), torch.nan)

    x, value = minimise(island, torch.ones(2, 3), steps=1000)
    assert x.tolist() == [[1, 1, 1]] * 2 and value.tolist() == [3, 3]
    assert len(calls) < 100  # it rests


def test_the_best_point_is_returned_with_its_value():
    def rough(x):
        return (x.square() + torch.sin(40 * x)).sum(dim=1)

    seen = []
    x, value = minimise(lambda x: seen.append(rough(x)) or seen[-1], STARTS, steps=30)
    torch.testing.assert_close(value, rough(x))
    torch.testing.assert_close(value, torch.stack(seen).amin(dim=0).detach())


def test_the_number_of_calls_is_bounded_and_the_start_is_left_alone():
    calls, start = [], STARTS.clone()
    minimise(lambda x: calls.append(1) or rosenbrock(x), start, steps=8)
    assert len(calls) == 11 and torch.equal(start, STARTS)
