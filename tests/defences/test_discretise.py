import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import cutlayer as cl
from cutlayer.defence import Local, Place
from cutlayer.defences import Discretise
from cutlayer.draws import Draws
from cutlayer.errors import ConfigError
from cutlayer.message import Kind
from cutlayer.spec import parse


def test_entries_land_on_the_grid(local):
    payload = torch.tensor([[0.2, 0.3, -0.8], [0.0, 1.4, -7.0]])
    sent = Discretise(bins=4, bound=1.0).protect(payload, local())  # steps of 0.5
    assert sent.tolist() == [[0, 0.5, -1.0], [0, 1.0, -1.0]]


def test_an_odd_number_of_bins_stops_half_a_step_before_the_bound(local):
    payload = torch.linspace(-2, 2, 401)[:, None]
    grid = Discretise(bins=5, bound=1.0).protect(payload, local()).unique()
    assert grid.tolist() == pytest.approx([-0.8, -0.4, 0, 0.4, 0.8])
    assert len(Discretise(bins=6, bound=1.0).protect(payload, local()).unique()) == 7


def test_the_defaults_of_the_paper(local):
    sent = Discretise().protect(torch.tensor([[0.0024, 0.0026, 0.5]]), local())  # steps of 0.005
    assert sent[0].tolist() == pytest.approx([0, 0.005, 0.03])


@given(
    st.lists(st.floats(-100, 100, width=32), min_size=6, max_size=6),
    st.integers(2, 40),
    st.floats(0.001, 50),
)
def test_within_half_a_step_inside_and_on_the_edge_outside(values, bins, bound):
    payload = torch.tensor(values, dtype=torch.float64).view(3, 2)
    here = Local(Place.GRADIENT, Draws(0), True, torch.arange(3))
    defence, step = Discretise(bins=bins, bound=bound), 2 * bound / bins
    sent = defence.protect(payload, here)
    edge = bins // 2 * step
    assert (sent.abs() <= edge * 1.000001).all() and (
        (sent - payload.clamp(-edge, edge)).abs() <= step * 0.500001
    ).all()
    assert torch.allclose(defence.protect(sent, here), sent)  # rounding twice is rounding once
    assert torch.allclose(defence.protect(-payload, here), -sent)


def test_the_gradient_passes_straight_through(local):
    payload = torch.tensor([[0.2, 9.0]], requires_grad=True)
    sent = Discretise(bins=4, bound=1.0, on="embedding").protect(payload, local(Place.EMBEDDING))
    sent.backward(torch.tensor([[2.0, 3.0]]))
    assert sent.tolist() == [[0, 1]] and payload.grad.tolist() == [[2, 3]]


@pytest.mark.parametrize(("on", "bound"), [("gradient", 0.03), ("embedding", 3.0)])
def test_messages_of_a_run_take_few_values_and_others_are_left_alone(local, on, bound):
    payload = torch.rand(2, 2)
    for place in Place:
        if place.value != on:
            assert Discretise(on=on).protect(payload, local(place)) is payload
    task = cl.data.digits(parties=2, limit=300)
    run = cl.train(
        task, defences=[Discretise(on=on, bound=bound)], recipe=cl.Recipe(epochs=3, batch_size=16), keep="all"
    )
    for kind in (Kind.EMBEDDING, Kind.GRADIENT):
        sent = run.view("party2").channel(kind, peer="party2").read()[1]
        assert (len(sent.unique()) <= 13) == (kind.value == on)
    assert run.metrics["accuracy"] > 0.3


def test_settings_are_checked_and_spelled():
    import cutlayer.defences as package
    from cutlayer.defence import Defence

    text = "discretise:bins=24,bound=0.001,on=embedding"
    assert parse(text, package, Defence, "defence").describe() == text
    for wrong in ({"bins": 1}, {"bound": 0}, {"bound": float("inf")}, {"on": "logits"}):
        with pytest.raises(ConfigError):
            Discretise(**wrong)
