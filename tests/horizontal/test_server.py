"""Averages by hand, and answers that cannot be used."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cutlayer.horizontal import ClientAnswer, Server
from cutlayer.horizontal.server import average

NAN = float("nan")


def test_weighted_and_plain_means_by_hand():
    answers = {"a": ClientAnswer(torch.tensor([1.0, 4.0]), 30), "b": ClientAnswer(torch.tensor([3.0, 0.0]), 10)}
    weighted, plain = Server(torch.zeros(2)), Server(torch.zeros(2), weighted=False)
    assert weighted.merge(answers, 0) == plain.merge(answers, 0) == {}
    assert weighted.weights.tolist() == [1.5, 3.0]
    assert plain.weights.tolist() == [2.0, 2.0]


def test_gradients_are_stepped_along():
    server = Server(torch.tensor([1.0, 1.0]), rate=lambda turn: 0.5 / (1 + turn))
    answers = {"a": ClientAnswer(torch.tensor([2.0, 0.0]), 1), "b": ClientAnswer(torch.tensor([4.0, 2.0]), 1)}
    server.merge(answers, 0)
    assert server.weights.tolist() == [-0.5, 0.5]
    server.merge(answers, 1)
    assert server.weights.tolist() == [-1.25, 0.25]


@given(st.lists(st.floats(-1e6, 1e6, width=32), min_size=1, max_size=5), st.lists(st.integers(1, 999), min_size=1))
def test_equal_answers_give_exactly_that_answer(values, counts):
    vector = torch.tensor(values)
    assert torch.equal(average([vector] * len(counts), counts), vector)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (ClientAnswer(torch.tensor([NAN, 0.0]), 1), "finite"),
        (ClientAnswer(torch.tensor([float("inf"), 0.0]), 1), "finite"),
        (ClientAnswer(torch.tensor([1, 2]), 1), "finite"),
        (ClientAnswer(torch.zeros(3), 1), "expected 2 numbers"),
        (ClientAnswer(torch.zeros(1, 2), 1), "expected 2 numbers"),
        (ClientAnswer(torch.zeros(2), 0), "at least one row"),
        (ClientAnswer(torch.zeros(2), -5), "at least one row"),
    ],
)
def test_what_cannot_be_used_is_refused_by_name_and_the_rest_counts(answer, why):
    server = Server(torch.zeros(2))
    refused = server.merge({"bad": answer, "good": ClientAnswer(torch.ones(2), 7)}, 0)
    assert list(refused) == ["bad"] and why in refused["bad"]
    assert server.weights.tolist() == [1.0, 1.0]


def test_without_any_answer_the_weights_stay():
    server = Server(torch.ones(2))
    assert server.merge({}, 0) == {}
    assert list(server.merge({"bad": ClientAnswer(torch.full((2,), NAN), 1)}, 0)) == ["bad"]
    assert server.weights.tolist() == [1.0, 1.0]
