"""What is read of a party's messages: the last of each row, and whether it is a code."""

from dataclasses import replace

import pytest
import torch

from cutlayer.attacks.tools.reading import is_code, latest, predicted
from cutlayer.errors import Inapplicable, RunError
from cutlayer.message import Kind, Phase
from cutlayer.transcript import Transcript
from tests.helpers.toy import FEATURE, record, world


def test_the_last_value_of_each_wanted_row():
    rows, values = torch.tensor([3, 1, 3, 2]), torch.tensor([[0.0], [1.0], [2.0], [3.0]])
    present, last = latest(rows, values, torch.tensor([5, 3, 1]))
    assert present.tolist() == [3, 1] and last.flatten().tolist() == [2.0, 1.0]


def sent(payload):
    """The label party's view of one message in prediction."""
    transcript = Transcript()
    record(transcript, Kind.EMBEDDING, FEATURE, torch.arange(len(payload)), payload, 0, Phase.PREDICT)
    return replace(world().view("bank"), channels=tuple(transcript.channels.values()))


def test_masked_embeddings_are_refused_unless_asked_for():
    view = sent(torch.tensor([[7], [9]]))
    with pytest.raises(Inapplicable, match="under masks"):
        predicted(view, FEATURE, torch.arange(2))
    assert predicted(view, FEATURE, torch.tensor([1]), masked=True)[1].tolist() == [[9]]
    with pytest.raises(RunError, match="predict on them first"):
        predicted(sent(torch.ones(2, 1)), FEATURE, torch.tensor([5]))


def test_only_plus_and_minus_one_make_a_code():
    assert is_code(torch.tensor([[1.0, -1.0]])) and not is_code(torch.tensor([[1.0, 0.0]]))
