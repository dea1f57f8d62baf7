import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import cutlayer as cl
from cutlayer.defence import Local, Place
from cutlayer.defences import OutputNoise
from cutlayer.draws import Draws
from cutlayer.errors import ConfigError
from cutlayer.spec import parse
from tests.helpers.small_task import make_task


def test_noise_has_the_given_variance_at_the_logits_only(local):
    payload = torch.full((500, 400), 2.0)
    for place in Place:
        noise = OutputNoise(variance=0.09).protect(payload, local(place)) - payload
        if place is Place.LOGITS:
            assert noise.mean().item() == pytest.approx(0, abs=0.003)
            assert noise.var().item() == pytest.approx(0.09, rel=0.01)
            assert noise.pow(4).mean().item() == pytest.approx(3 * 0.09**2, rel=0.03)  # a normal's kurtosis
        else:
            assert not noise.any()


def test_by_hand_and_in_units_of_one_row(local):
    payload = torch.tensor([[1.0, -1.0], [0.0, 0.5]])
    draw = local(seed=3).rng.normal((2, 2)).float()
    mean = OutputNoise(variance=4.0).protect(payload, local(Place.LOGITS, seed=3))
    row = OutputNoise(variance=4.0, unit="row").protect(payload, local(Place.LOGITS, seed=3))
    assert torch.allclose(mean, payload + 2 * draw) and torch.allclose(row, payload + draw)  # of two rows


@given(st.just(0.0) | st.floats(1e-6, 1e6), st.integers(1, 9), st.sampled_from(["mean", "row"]))
def test_always_finite_and_nothing_at_variance_zero(variance, rows, unit):
    payload = torch.zeros(rows, 3)
    here = Local(Place.LOGITS, Draws(0), True, torch.arange(rows))
    sent = OutputNoise(variance=variance, unit=unit).protect(payload, here)
    assert sent.isfinite().all() and bool(sent.any()) == (variance > 0)


def test_the_label_partys_own_update_is_blurred_too():
    """Unlike noise on messages, it reaches the top."""
    task = make_task(2, "p0")
    tops = [
        cl.train(task, defences=d, recipe=cl.Recipe(epochs=1, batch_size=32)).session.label_party.top
        for d in ([], [OutputNoise(variance=0.1)])
    ]
    assert not torch.equal(*(next(top.parameters()) for top in tops))


def test_settings_are_checked_and_spelled():
    import cutlayer.defences as package
    from cutlayer.defence import Defence

    text = "output-noise:variance=0.2,unit=row"
    assert parse(text, package, Defence, "defence").describe() == text
    for wrong in ({"variance": -1}, {"variance": float("nan")}, {"unit": "sum"}):
        with pytest.raises(ConfigError):
            OutputNoise(**wrong)
