"""VFLDefender: signs stay, sizes are uniform; what the paper leaves open is a setting."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.functional import cross_entropy, normalize

from cutlayer.defence import Local, Place
from cutlayer.defences import VFLDefender
from cutlayer.draws import Draws
from cutlayer.errors import ConfigError
from cutlayer.spec import parse

ROWS = torch.tensor([[0.2, -0.5, 0.3], [0.0, 0.1, -0.1]])


def test_the_formula_by_hand(local):
    """Two rows: thresholds -2 and 4 are halved; sizes are 1 - draw."""
    draw = local(seed=4).rng.uniform((2, 3)).float()
    sent = VFLDefender(low=-2, high=4).protect(ROWS, local(Place.LOGITS, seed=4))
    side = torch.tensor([[2.0, -1.0, 2.0], [2.0, 2.0, -1.0]])
    assert torch.allclose(sent, side * (1 - draw))
    whole = VFLDefender(low=-2, high=4, unit="mean").protect(ROWS, local(Place.LOGITS, seed=4))
    assert torch.allclose(whole, 2 * sent)


def test_zero_is_positive_in_equation_7_and_negative_in_algorithm_2(local):
    here = {
        reading: VFLDefender(reading=reading).protect(ROWS, local(Place.LOGITS))
        for reading in ("equation", "algorithm")
    }
    assert here["equation"][1, 0] > 0 > here["algorithm"][1, 0]
    off_ties = ROWS != 0
    assert torch.equal(here["equation"][off_ties], here["algorithm"][off_ties])


def test_sizes_are_uniform_whatever_they_were(local):
    gradient = torch.tensor([[1e-6, -3.0]]).repeat(50_000, 1)
    sent = VFLDefender(low=-0.5, high=2.0, unit="mean").protect(gradient, local(Place.LOGITS))
    for column, (end, width) in zip(sent.T, ((2.0, 2.0), (-0.5, 0.5)), strict=True):
        assert column.mean().item() == pytest.approx(end / 2, abs=0.01 * width)
        assert column.var().item() == pytest.approx(width**2 / 12, rel=0.02)
    assert abs(torch.corrcoef(sent.T)[0, 1].item()) < 0.02


@given(st.lists(st.floats(-1, 1, width=32), min_size=12, max_size=12), st.integers(0, 99))
def test_signs_stay_so_clipping_and_normalising_first_would_change_nothing(values, seed):
    gradient = torch.tensor(values).view(4, 3)
    gradient = gradient.where(gradient.abs() > 1e-30, 0.0)  # squares below do not underflow to a zero norm

    def sent(payload):
        return VFLDefender().protect(payload, Local(Place.LOGITS, Draws(seed), True, torch.arange(4)))

    signs = gradient.sign().where(gradient != 0, 1.0)
    assert torch.equal(sent(gradient).sign(), signs)
    assert torch.equal(sent(normalize(gradient.clamp(-1, 1))), sent(gradient))


def test_the_one_negative_entry_of_a_row_is_its_label(local):
    """What it does not hide, as the docstring says."""
    outputs = torch.randn(200, 5, generator=torch.Generator().manual_seed(0), requires_grad=True)
    labels = torch.arange(200) % 5
    (gradient,) = torch.autograd.grad(cross_entropy(outputs, labels), outputs)
    assert torch.equal(VFLDefender().protect(gradient, local(Place.LOGITS)).argmin(dim=1), labels)


def test_the_repaired_variant_keeps_the_clipped_gradient_on_average(local):
    gradient = torch.tensor([[0.2, -3.0, 0.0]]).repeat(40_000, 1)
    defence = VFLDefender(variant="repaired", low=-1, high=1, unit="mean")
    sent = defence.protect(gradient, local(Place.LOGITS))
    assert sent.mean(dim=0).tolist() == pytest.approx([0.2, -1.0, 0.0], abs=0.01)
    assert sent.amax(dim=0).tolist() == pytest.approx([0.4, 0.0, 0.0], abs=0.001)
    assert (sent * gradient >= 0).all()


def test_messages_are_left_alone_as_they_follow_from_the_logits(local):
    for place in (Place.EMBEDDING, Place.GRADIENT):
        assert VFLDefender().protect(ROWS, local(place)) is ROWS


def test_settings_are_checked_and_spelled():
    import cutlayer.defences as package
    from cutlayer.defence import Defence

    text = "vfl-defender:low=-0.1,high=0.2,variant=repaired,reading=algorithm,unit=mean"
    assert parse(text, package, Defence, "defence").describe() == text
    wrong = [
        {"low": 0.1},
        {"high": -1},
        {"low": 0},
        {"high": float("inf")},
        {"variant": "x"},
        {"unit": "x"},
        {"reading": "x"},
    ]
    for settings in wrong:
        with pytest.raises(ConfigError):
            VFLDefender(**settings)
