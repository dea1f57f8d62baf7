import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import cutlayer as cl
from cutlayer.defence import Local, Place
from cutlayer.defences import Sparsification
from cutlayer.draws import Draws
from cutlayer.errors import ConfigError
from cutlayer.message import Kind
from cutlayer.spec import parse


def test_the_largest_of_the_whole_batch_are_kept(local):
    payload = torch.tensor([[0.1, -0.9, 0.2, 0.3], [-0.4, 0.0, 0.8, 0.05], [0.01, 0.02, 0.03, 0.04]])
    sent = Sparsification(share=0.25).protect(payload, local())  # 3 of 12: above the fourth largest, 0.3
    zero = [0.0] * 4
    assert torch.equal(sent, torch.tensor([[0, -0.9, 0, 0], [-0.4, 0, 0.8, 0], zero]))


def test_ties_with_the_threshold_are_dropped(local):
    payload = torch.tensor([[3.0, 2.0, -2.0, 1.0]])
    assert Sparsification(share=0.25).protect(payload, local()).tolist() == [[3, 0, 0, 0]]
    assert Sparsification(share=0.5).protect(payload, local()).tolist() == [[3, 0, 0, 0]]  # -2 ties with 2
    assert Sparsification(share=0.75).protect(payload, local()).tolist() == [[3, 2, -2, 0]]
    assert not Sparsification(share=0.5).protect(torch.ones(3, 4), local()).any()


def test_all_or_nothing(local):
    payload = torch.tensor([[3.0, 0.0], [1.0, -1.0]])
    assert torch.equal(Sparsification(share=1.0).protect(payload, local()), payload)
    assert not Sparsification(share=0.1).protect(payload, local()).any()  # a tenth of four entries is none
    assert Sparsification().protect(torch.zeros(0, 3), local()).shape == (0, 3)


def test_a_share_is_not_lost_to_rounding(local):
    payload = torch.arange(1.0, 101.0)[:, None]
    assert Sparsification(share=0.29).protect(payload, local()).count_nonzero() == 29


@given(st.lists(st.floats(-100, 100, width=32), min_size=12, max_size=12), st.floats(0.01, 1))
def test_what_is_sent_is_larger_than_what_is_not_and_no_more_than_the_share(values, share):
    payload = torch.tensor(values).view(4, 3)
    here = Local(Place.GRADIENT, Draws(0), True, torch.arange(4))
    sent = Sparsification(share=share).protect(payload, here)
    kept = sent != 0
    assert kept.sum() <= share * 12 + 1e-6 and torch.equal(sent[kept], payload[kept])
    if kept.any() and not kept.all():
        assert payload[kept].abs().min() > payload[~kept].abs().max()


def test_on_embeddings_kept_entries_learn_and_others_do_not(local):
    payload = torch.tensor([[5.0, 1.0], [-4.0, 2.0]], requires_grad=True)
    sent = Sparsification(share=0.5, on="embedding").protect(payload, local(Place.EMBEDDING))
    sent.backward(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    assert sent.tolist() == [[5, 0], [-4, 0]] and payload.grad.tolist() == [[1, 0], [3, 0]]


@pytest.mark.parametrize("on", ["gradient", "embedding"])
def test_messages_of_a_run_are_sparse_and_others_are_left_alone(local, on):
    payload = torch.ones(2, 2)
    for place in Place:
        if place.value != on:
            assert Sparsification(on=on).protect(payload, local(place)) is payload
    task = cl.data.digits(parties=2, limit=300)
    run = cl.train(
        task, defences=[Sparsification(share=0.25, on=on)], recipe=cl.Recipe(epochs=3, batch_size=16), keep="all"
    )
    for kind in (Kind.EMBEDDING, Kind.GRADIENT):
        sent = run.view("party2").channel(kind, peer="party2").read()[1]
        assert ((sent != 0).double().mean() <= 0.25) == (kind.value == on)
    assert run.metrics["accuracy"] > 0.3


def test_settings_are_checked_and_spelled():
    import cutlayer.defences as package
    from cutlayer.defence import Defence

    text = "sparsification:share=0.01,on=embedding"
    assert parse(text, package, Defence, "defence").describe() == text
    for wrong in ({"share": 0}, {"share": 1.1}, {"share": float("nan")}, {"on": "logits"}):
        with pytest.raises(ConfigError):
            Sparsification(**wrong)
