import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cutlayer.defence import Local, Place
from cutlayer.defences import MaxNorm
from cutlayer.draws import Draws


def test_every_row_reaches_the_largest_squared_norm_on_average(local):
    gradient = torch.tensor([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]]).repeat(20_000, 1)
    squared = MaxNorm().protect(gradient, local()).pow(2).sum(dim=1).view(-1, 3).mean(dim=0)
    assert squared.tolist() == pytest.approx([25, 25, 0], rel=0.05)


def test_the_formula_by_hand(local):
    gradient = torch.tensor([[3.0, 4.0], [0.0, 1.0]])  # norms 5 and 1: factor 1 + xi * sqrt(25 - 1)
    xi = local(seed=4).rng.normal((2, 1))[1].item()
    sent = MaxNorm().protect(gradient, local(seed=4))
    assert sent[0].tolist() == pytest.approx([3, 4])
    assert sent[1].tolist() == pytest.approx([0, 1 + xi * 24**0.5])


def test_directions_stay_up_to_sign(local):
    gradient = torch.randn(50, 6, generator=torch.Generator().manual_seed(0))
    sent = MaxNorm().protect(gradient, local())
    assert torch.cosine_similarity(gradient, sent).abs().tolist() == pytest.approx([1] * 50, abs=1e-5)


@pytest.mark.parametrize("size", [1e-38, 1e-30, 1e-20, 1.0, 1e18])
def test_tiny_and_huge_gradients_are_stretched_all_the_same(local, size):
    """Squares of these underflow or overflow in single precision; the formula must not care."""
    gradient = torch.tensor([[3.0, 4.0], [0.3, 0.4]]).repeat(10_000, 1)
    expected = MaxNorm().protect(gradient, local())
    assert torch.allclose(MaxNorm().protect(gradient * size, local()) / size, expected, rtol=1e-3, atol=1e-4)


def test_a_row_far_below_the_largest_is_stretched_too(local):
    gradient = torch.tensor([[1.0, 0.0], [0.0, 1e-30]]).repeat(20_000, 1)
    squared = MaxNorm().protect(gradient, local()).pow(2).sum(dim=1).view(-1, 2).mean(dim=0)
    assert squared.tolist() == pytest.approx([1, 1], rel=0.05)


@pytest.mark.parametrize("payload", [torch.zeros(3, 2), torch.tensor([[3.0, 4.0]]), torch.zeros(1, 4)])
def test_zero_batches_and_single_rows_pass_unchanged(local, payload):
    assert torch.equal(MaxNorm().protect(payload, local()), payload)


def test_feature_maps_are_rows(local):
    gradient = torch.randn(5, 2, 3, 3, generator=torch.Generator().manual_seed(0))
    flat = MaxNorm().protect(gradient.flatten(1), local())
    assert torch.equal(MaxNorm().protect(gradient, local()).flatten(1), flat)


@pytest.mark.parametrize("place", [Place.EMBEDDING, Place.LOGITS])
def test_other_messages_pass(local, place):
    payload = torch.tensor([[3.0, 4.0], [0.3, 0.4]])
    assert MaxNorm().protect(payload, local(place)) is payload


@given(st.lists(st.floats(-(2.0**50), 2.0**50, width=32), min_size=12, max_size=12), st.integers(0, 99))
def test_always_finite_and_zero_rows_stay_zero(values, seed):
    gradient = torch.tensor(values).view(4, 3)
    here = Local(Place.GRADIENT, Draws(seed), True, torch.arange(4))
    sent = MaxNorm().protect(gradient, here)
    assert sent.isfinite().all()
    assert not sent[(gradient == 0).all(dim=1)].any()
