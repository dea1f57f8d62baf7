"""What a party sends is what its defences made of it, and what it learns from is what arrived."""

import torch

import cutlayer as cl
from cutlayer.message import Kind, Phase
from tests.helpers.small_task import bottom, make_task, top


class Marked(cl.Defence):
    """Replace what leaves at one place by a constant, which nothing else would send."""

    def __init__(self, place, mark):
        self.place, self.mark = place, mark

    def protect(self, payload, local):
        return torch.full_like(payload, self.mark) + 0 * payload if local.place is self.place else payload


def run_with(*defences):
    recipe = cl.Recipe(epochs=2, batch_size=32)
    return cl.train(make_task(2, "p0"), bottoms=bottom, top=top, defences=defences, recipe=recipe, keep="all")


def payloads(run, kind, phase=Phase.TRAIN):
    channels = run.view("p1").channels
    return torch.cat([channel.read()[1] for channel in channels if channel.kind is kind and channel.phase is phase])


def test_gradients_leave_as_defences_made_them():
    sent = payloads(run_with(Marked(cl.Place.GRADIENT, 0.25)), Kind.GRADIENT)
    assert len(sent) and bool((sent == 0.25).all())


def test_embeddings_leave_as_defences_made_them_in_training_and_in_prediction():
    run = run_with(Marked(cl.Place.EMBEDDING, -3.0))
    for phase in (Phase.TRAIN, Phase.PREDICT):
        sent = payloads(run, Kind.EMBEDDING, phase)
        assert len(sent) and bool((sent == -3.0).all())


def test_defences_apply_in_their_order():
    twice = run_with(Marked(cl.Place.GRADIENT, 1.0), Marked(cl.Place.GRADIENT, 2.0))
    assert bool((payloads(twice, Kind.GRADIENT) == 2.0).all())


def test_a_feature_party_learns_from_the_gradient_that_arrived():
    """With zeros for gradients it stays where it began, batch norm's statistics apart; the label party goes on."""
    still, free = run_with(Marked(cl.Place.GRADIENT, 0.0)), run_with()
    first = {name: dict(party.bottom.named_parameters()) for name, party in _begun().items()}
    for name, value in still.session.parties["p1"].modules["bottom"].named_parameters():
        assert torch.equal(value, first["p1"][name]), name
    assert not torch.equal(
        next(free.session.parties["p1"].modules["bottom"].parameters()), next(iter(first["p1"].values()))
    )


def _begun():
    plan = cl.Plan(bottoms=bottom, top=top, recipe=cl.Recipe(epochs=2, batch_size=32))
    return cl.plan.assemble(make_task(2, "p0"), plan, lambda message: None).parties
