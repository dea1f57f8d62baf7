import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cutlayer.defence import Local, Place
from cutlayer.defences import GaussianNoise
from cutlayer.draws import Draws
from cutlayer.errors import ConfigError
from cutlayer.spec import parse


@pytest.mark.parametrize("on", ["embedding", "gradient"])
def test_noise_has_the_given_spread_on_that_message_only(local, on):
    payload = torch.full((400, 500), 2.0)
    for place in Place:
        noise = GaussianNoise(std=0.3, on=on).protect(payload, local(place)) - payload
        if place.value == on:
            assert noise.mean().item() == pytest.approx(0, abs=0.003)
            assert noise.std().item() == pytest.approx(0.3, rel=0.01)
            assert noise.pow(4).mean().item() == pytest.approx(3 * 0.3**4, rel=0.03)  # a normal's kurtosis
        else:
            assert not noise.any()


def test_noise_is_fresh_on_every_call_and_in_prediction(local):
    payload, defence, here = torch.zeros(4, 3), GaussianNoise(), local(Place.EMBEDDING, training=False)
    assert not torch.equal(defence.protect(payload, here), defence.protect(payload, here))


def test_clip_shrinks_the_whole_batch_by_its_longest_row(local):
    payload = torch.tensor([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]])
    sent = GaussianNoise(std=0, clip=1).protect(payload, local(Place.EMBEDDING))
    assert sent.flatten().tolist() == pytest.approx([0.6, 0.8, 0.06, 0.08, 0, 0])
    assert torch.equal(GaussianNoise(std=0, clip=5).protect(payload, local(Place.EMBEDDING)), payload)


def test_clip_measures_whole_rows_of_feature_maps(local):
    payload = torch.ones(2, 4, 2, 2)  # each row has norm 4
    sent = GaussianNoise(std=0, clip=1).protect(payload, local(Place.EMBEDDING))
    assert sent.flatten().tolist() == pytest.approx([0.25] * 32)


def test_backward_ignores_the_noise_and_takes_the_shrinking_as_constant(local):
    payload = torch.tensor([[3.0, 4.0], [0.3, 0.4]], requires_grad=True)
    sent = GaussianNoise(std=7.0, clip=1).protect(payload, local(Place.EMBEDDING))
    sent.backward(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    assert payload.grad.flatten().tolist() == pytest.approx([0.2, 0.4, 0.6, 0.8])


@given(st.lists(st.floats(-1e6, 1e6, width=32), min_size=6, max_size=6), st.floats(0.01, 100), st.integers(0, 9))
def test_no_row_leaves_longer_than_clip(values, clip, seed):
    payload = torch.tensor(values).view(3, 2)
    here = Local(Place.GRADIENT, Draws(seed), True, torch.arange(3))
    sent = GaussianNoise(std=0, clip=clip, on="gradient").protect(payload, here)
    assert sent.isfinite().all() and sent.norm(dim=1).max() <= clip * 1.0001


def test_settings_are_checked_and_spelled():
    import cutlayer.defences as package
    from cutlayer.defence import Defence

    text = "gaussian-noise:std=0.2,on=gradient,clip=0.5"
    assert parse(text, package, Defence, "defence").describe() == text
    for wrong in ({"std": -1}, {"std": float("nan")}, {"clip": 0}, {"on": "logits"}):
        with pytest.raises(ConfigError):
            GaussianNoise(**wrong)
