"""Asking for rows: both sides agree on numbers, and a party refuses rows that it did not say it has."""

import pytest
import torch

from cutlayer.errors import ProtocolError
from cutlayer.message import Kind, Message
from cutlayer.net.predict.row_index import TAG, RowIndex, RowNumbers
from cutlayer.net.predict.row_request import answer, ask, request_batch
from cutlayer.session import exchange


def test_a_feature_party_refuses_rows_that_it_did_not_say_it_has():
    numbers = RowNumbers("cpu")
    numbers.add([2, -1, 0])
    assert numbers.rows(torch.tensor([0, 2])).tolist() == [2, 0]
    batch = request_batch(0)
    for wrong in ([1, 1], [1, 3], [1, -1], [2, 0], []):
        talk = answer("shop", "bank", batch, False, RowIndex(None, {}), numbers)
        next(talk)
        with pytest.raises(ProtocolError):
            talk.send(Message(batch, "bank", "shop", Kind.SETUP, torch.tensor(wrong, dtype=torch.int64)))


def test_asking_and_answering_agree_on_numbers():
    numbers = RowNumbers("cpu")
    tags = [bytes([place] * TAG) for place in range(3)]
    batch = request_batch(0)
    talks = {
        "bank": ask("bank", ("shop",), batch, tags, lambda has: has[0].nonzero()[:, 0].tolist()),
        "shop": answer("shop", "bank", batch, True, RowIndex(None, {tags[0]: 2, tags[2]: 1}), numbers),
    }
    rows = exchange(talks, lambda message: None)
    assert rows["shop"].tolist() == rows["bank"].tolist() == [0, 2]
    assert numbers.rows(rows["shop"]).tolist() == [2, 1]
