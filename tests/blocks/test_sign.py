"""Sign, its gradient, batch norm before it, and the Laplace noise that flips bits."""

from math import exp

import pytest
import torch

from cutlayer.blocks.sign import Normalised, laplace_like, sign
from cutlayer.errors import ConfigError
from tests.helpers.toy import draws


def test_zero_is_plus_one():
    values = torch.tensor([0.0, -0.0, 1e-45, -1e-45, 3.0, -3.0, float("inf"), float("-inf")])
    assert sign(values).tolist() == [1, 1, 1, -1, 1, -1, 1, -1]  # -0.0 >= 0


def test_a_diverged_number_does_not_become_a_code():
    assert sign(torch.tensor([float("nan"), 1.0])).isnan().tolist() == [True, False]


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_type_and_shape_stay(dtype):
    code = sign(torch.zeros(2, 3, 4, dtype=dtype))
    assert code.dtype is dtype and code.shape == (2, 3, 4)


def test_the_gradient_passes_as_it_is_beyond_one_too():
    values = torch.tensor([0.0, 0.3, -0.9, 1.5, -40.0, 1e6], requires_grad=True)
    gradient = torch.tensor([0.1, -0.2, 0.3, -0.4, 0.5, 7.0])
    sign(values).backward(gradient)
    assert torch.equal(values.grad, gradient)


def test_the_chain_rule_goes_on_from_there():
    """d/dv of 5 sign(2 v) is 10 by the straight-through rule, 0 by calculus."""
    value = torch.tensor([0.25], requires_grad=True)
    (5 * sign(2 * value)).sum().backward()
    assert value.grad.tolist() == [10]


@pytest.mark.parametrize("scale", [0.2, 1.0, 2.0])
def test_laplace_moments(scale):
    """Laplace of scale b: mean 0, mean size b, variance 2 b^2, fourth moment 24 b^4."""
    noise = laplace_like(torch.empty(1_000_000, dtype=torch.float64), scale, draws())
    assert noise.mean().item() == pytest.approx(0, abs=0.006 * scale)
    assert noise.abs().mean().item() == pytest.approx(scale, rel=0.005)
    assert noise.var().item() == pytest.approx(2 * scale**2, rel=0.01)
    assert noise.pow(4).mean().item() == pytest.approx(24 * scale**4, rel=0.05)


@pytest.mark.parametrize(("epsilon", "expected"), [(1, 0.30327), (2, 0.18394), (10, 0.00337)])
@pytest.mark.parametrize("bit", [1.0, -1.0])
def test_a_bit_flips_with_half_e_to_the_minus_half_epsilon(epsilon, expected, bit):
    count = 1_000_000
    code = torch.full((count,), bit)
    flipped = (sign(code + laplace_like(code, 2 / epsilon, draws(3))) != code).double().mean().item()
    chance = exp(-epsilon / 2) / 2
    assert chance == pytest.approx(expected, abs=1e-5)
    assert abs(flipped - chance) < 4 * (chance * (1 - chance) / count) ** 0.5


def test_noise_comes_from_the_given_generator():
    like = torch.empty(4, 3)
    state = torch.random.get_rng_state()
    assert torch.equal(laplace_like(like, 1.0, draws(5)), laplace_like(like, 1.0, draws(5)))
    assert not torch.equal(laplace_like(like, 1.0, draws(5)), laplace_like(like, 1.0, draws(6)))
    assert torch.equal(torch.random.get_rng_state(), state)


def test_batch_norm_by_hand():
    """Column (1, 3): mean 2, variance 1 in the batch; running variance is the unbiased 2."""
    norm = Normalised(1)
    values = torch.tensor([[1.0], [3.0]])
    assert norm(values).flatten().tolist() == pytest.approx([-1, 1], abs=1e-4)
    assert norm.running_mean.item() == pytest.approx(0.2) and norm.running_var.item() == pytest.approx(0.9 + 0.2)
    assert norm.eval()(values).flatten().tolist() == pytest.approx([0.8 / 1.1**0.5, 2.8 / 1.1**0.5], rel=1e-4)


def test_batch_norm_says_what_is_wrong():
    norm = Normalised(4)
    with pytest.raises(ConfigError, match=r"at least two rows in a training batch.*--batch-size"):
        norm(torch.zeros(1, 4))
    for shape in [(2, 5), (2, 4, 3)]:
        with pytest.raises(ConfigError, match="ends in 4 numbers, one per bit, got shape"):
            norm(torch.zeros(shape))
    assert norm.eval()(torch.zeros(1, 4)).shape == (1, 4)
