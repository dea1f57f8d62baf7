"""Votes by hand: what is sent, what flows back, what wrong votes cost, and what it refuses."""

from math import log2

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import cutlayer as cl
from cutlayer.checkpoint import digest
from cutlayer.defence import Course, Local, Place, Role, Setting, Subject
from cutlayer.defences import Vote
from cutlayer.defences.vote import vote
from cutlayer.errors import ConfigError, ProtocolError
from cutlayer.message import Kind
from cutlayer.wire import Encoding
from tests.helpers.toy import draws, rng


def local(place=Place.EMBEDDING, **known):
    return Local(place, draws(), True, torch.arange(2), **known)


def setting(role=Role.FEATURE_PARTY, subject=Subject.BOTTOM, classes=3):
    return Setting("p", role, subject, classes, draws(), 4)


def test_the_largest_number_is_the_vote():
    sent = Vote().protect(torch.tensor([[0.2, 0.9, -1.0], [5.0, 5.0, 5.0], [-3.0, -2.0, -1.0]]), local())
    assert sent.tolist() == [[-1, 1, -1], [1, -1, -1], [-1, -1, 1]]


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 30), st.integers(1, 9), st.floats(1e-3, 1e3), st.integers(0, 99))
def test_there_are_no_more_messages_than_classes(rows, classes, scale, seed):
    values = scale * torch.randn(rows, classes, generator=rng(seed))
    sent = vote(values)
    assert len(sent.unique(dim=0)) <= classes
    assert (sent.abs() == 1).all() and ((sent > 0).sum(dim=1) == 1).all()
    assert torch.equal(vote(4 * values), sent)  # and the size of an embedding tells nothing


def test_backward_a_message_is_the_softmax():
    values = torch.randn(4, 3, generator=rng(), dtype=torch.float64, requires_grad=True)
    weights = torch.randn(4, 3, generator=rng(1), dtype=torch.float64)
    vote(values).backward(weights)
    expected = torch.autograd.grad(2 * values.softmax(dim=1) - 1, values, weights)[0]
    assert torch.allclose(values.grad, expected)


def test_a_bottom_that_diverged_casts_no_vote():
    sent = vote(torch.tensor([[torch.nan, 1.0], [0.0, 1.0]]))
    assert sent[0].isnan().all() and sent[1].tolist() == [-1, 1]


def test_wrong_votes_cost_pull():
    votes = vote(torch.eye(3)[[0, 1, 2, 2]])
    here = local(labels=torch.tensor([0, 1, 2, 0]), classes=3)
    assert Vote(pull=2.0).penalty(votes, here).item() == pytest.approx(2 / 4)
    soft = local(labels=torch.eye(3)[[0, 1, 2, 0]], classes=3)
    assert Vote(pull=2.0).penalty(votes, soft).item() == pytest.approx(2 / 4)
    assert Vote(pull=0.0).penalty(votes, here) is None
    assert Vote().penalty(votes, local()) is None  # a feature party knows no labels


def test_gradients_and_tops_are_left_alone():
    gradient, top = torch.ones(2, 3), nn.Linear(2, 3)
    assert Vote().protect(gradient, local(Place.GRADIENT)) is gradient
    assert Vote().model(top, setting(Role.LABEL_PARTY, Subject.TOP)) is top
    assert Vote().encoding(Place.EMBEDDING) is Encoding.BITS and Vote().encoding(Place.GRADIENT) is None


def test_what_it_refuses():
    for wrong in (-1.0, float("nan")):
        with pytest.raises(ConfigError):
            Vote(pull=wrong)
    with pytest.raises(ConfigError, match="regression"):
        Vote().width(16, 0)
    with pytest.raises(ConfigError, match="two rows"):
        Vote().model(nn.Linear(2, 3), setting())(torch.ones(1, 2))
    here = local(classes=3)
    assert Vote().inspect({"q": vote(torch.eye(3))}, None, here) is None
    for sent in (torch.full((2, 3), -1.0), torch.tensor([[1.0, 1.0, -1.0]]), torch.zeros(2, 3), torch.ones(2, 2)):
        with pytest.raises(ProtocolError, match="from q"):
            Vote().inspect({"q": sent}, None, here)


def test_the_record_says_how_many_bits():
    (note,) = Vote().notes(Course(100, 10, 5, 1, 4))
    assert "at most 2.00 bits" in note and "10.0 more, in 5 epochs" in note


def test_a_federation_learns_repeats_and_sends_one_letter():
    task = cl.data.digits(parties=2, limit=600)
    recipe = cl.Recipe(epochs=2, batch_size=32, lr=1e-2)
    first, second = (cl.train(task, defences=[Vote()], recipe=recipe) for _ in range(2))
    assert first.metrics["accuracy"] > 0.6
    assert all(digest(first.models[name]) == digest(second.models[name]) for name in first.models)
    sent = first.view(task.label_party).channel(Kind.EMBEDDING, peer="party2").read()[1]
    counts = sent.unique(dim=0, return_counts=True)[1].double()
    shares = counts / counts.sum()
    assert len(counts) <= 10 and -(shares * shares.log2()).sum() <= log2(10)
