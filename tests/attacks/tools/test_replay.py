"""A replayed past is the past: its numbers by hand, and the trained model bit for bit."""

import pytest
import torch

import cutlayer as cl
from cutlayer.attacks.tools.replay import first_moments, replay
from cutlayer.errors import Inapplicable
from cutlayer.message import Kind
from tests.helpers.small_task import bottom, make_task, top
from tests.helpers.two_rows import two_rows


@pytest.fixture(scope="module")
def run():
    recipe = cl.Recipe(epochs=3, batch_size=32)
    return cl.train(make_task(3, "p0"), bottoms=bottom, top=top, width=6, recipe=recipe, keep="all")


def test_weights_after_a_step_hold_no_later_batch():
    first, second = list(replay(two_rows(batches=2)))
    torch.testing.assert_close(first.updated, torch.tensor([4.2, 1.05]))
    torch.testing.assert_close(second.weights, first.updated)
    torch.testing.assert_close(second.updated, torch.tensor([4.4, 1.10]))


def test_the_replayed_past_is_the_past(run):
    """Embeddings as they were sent, step by step, and at the end the trained model itself, bit for bit."""
    view = run.view("p1")
    sent = view.channel(Kind.EMBEDDING, peer="p1").messages()
    steps = list(replay(view))
    for step, message in zip(steps, sent, strict=True):
        assert torch.equal(step.before, message.payload)
    trained = torch.cat([p.flatten() for p in run.session.parties["p1"].modules["bottom"].parameters()])
    assert torch.equal(steps[-1].updated, trained.detach())


def test_moments_are_the_first_steps(run):
    view = run.view("p1")
    moments = first_moments(view, 2)
    for moment, step in zip(moments, replay(view), strict=False):
        weights = torch.cat([p.detach().flatten() for p in moment.bottom.parameters()])
        assert torch.equal(moment.rows, step.rows) and torch.equal(weights, step.weights)
        assert torch.equal(torch.cat([g.flatten() for g in moment.gradients.values()]), step.slopes)
    assert len(moments) == 2


def test_without_the_first_epoch_it_does_not_apply(run):
    late = cl.train(run.task, bottoms=bottom, top=top, width=6, recipe=run.plan.recipe, keep="last")
    with pytest.raises(Inapplicable, match="first epoch"):
        next(replay(late.view("p1")))


def test_the_replay_stops_where_epochs_are_missing(run):
    ends = cl.train(run.task, bottoms=bottom, top=top, width=6, recipe=run.plan.recipe, keep="ends")
    view = ends.view("p1")
    assert set(view.channel(Kind.GRADIENT, peer="p1").entries["epoch"]) == {0, 2}
    assert len(list(replay(view))) == len(list(replay(run.view("p1"), first_only=True)))
