"""What a peer sends is checked before it is used, and a refusal is one sentence without an id."""

from dataclasses import replace

import pytest
import torch

from cutlayer.align import okvs, payload
from cutlayer.errors import ProtocolError
from cutlayer.message import Kind, Message
from cutlayer.session import exchange
from tests.helpers.alignment import BATCH, talks

TWO = {"bank": ["idA", "idB", "idC"], "shop": ["idB", "idC", "idD", "idE"]}
THREE = {**TWO, "gym": ["idC", "idB"]}


def tamper(talk, number, change):
    """A talk whose message of this number is changed on its way."""
    sent, answer = 0, None
    while True:
        try:
            message = talk.send(answer)
        except StopIteration as end:
            return end.value
        if message is not None:
            message = replace(message, payload=change(message.payload)) if sent == number else message
            sent += 1
        answer = yield message


def run(columns, party, number, change):
    started = talks(columns)
    started[party] = tamper(started[party], number, change)
    return exchange(started, lambda message: None)


def zero_first(payload):
    changed = payload.clone()
    changed[0] = 0
    return changed


def set_top_bit(payload):
    changed = payload.clone()
    changed[-1, -1] = 255
    return changed


SHAPES = [
    (lambda p: p.float(), "float32"),
    (lambda p: p[:, :-1], "rows of"),
    (lambda p: p.flatten(), "rows of"),
    (lambda p: p[None], "rows of"),
    (lambda p: p.to(torch.int64), "int64"),
]


@pytest.mark.parametrize("columns", [TWO, THREE], ids=["two", "three"])
@pytest.mark.parametrize(("party", "number"), [("bank", 0), ("bank", -1), ("shop", -2), ("shop", -1), ("shop", 0)])
@pytest.mark.parametrize(("change", "words"), SHAPES)
def test_other_dtypes_and_shapes(columns, party, number, change, words):
    peers = len(columns) - 1
    count = 2 * peers if party == "bank" else 1 + peers  # messages it sends
    with pytest.raises(ProtocolError, match=words) as caught:
        run(columns, party, number % count, change)
    assert str(caught.value).startswith("Expected ") and str(caught.value).endswith(".")
    assert "id" not in str(caught.value).replace("side", "")


@pytest.mark.parametrize(
    ("columns", "party", "number", "change", "words"),
    [
        (TWO, "bank", 0, zero_first, r"proper points from bank, got one of small order"),
        (TWO, "bank", 0, set_top_bit, r"points of 255 bits from bank"),
        (TWO, "shop", 1, zero_first, r"proper points from shop, got one of small order"),
        (TWO, "shop", 1, lambda p: p[1:], r"Expected 3 rows of 32 bytes from shop, got shape \(2, 32\)"),
        (TWO, "shop", 1, lambda p: torch.cat([p, p]), r"Expected 3 rows of 32 bytes from shop"),
        (TWO, "shop", 0, lambda p: p.flip(0), r"sorted tags, each once, from shop"),
        (TWO, "shop", 0, lambda p: p[[0, 0, 1]], r"sorted tags, each once, from shop"),
        (TWO, "bank", 1, lambda p: p[[0, 0]], r"tags of common ids, each once, from bank"),
        (TWO, "bank", 1, lambda p: p ^ 1, r"tags of common ids, each once, from bank"),
        (TWO, "bank", 1, lambda p: p.repeat(9, 1), r"Expected 0 to 3 rows of 16 bytes from bank"),
        (THREE, "shop", 0, lambda p: p * 0, r"proper public key from shop"),
        (THREE, "shop", 0, lambda p: torch.cat([p, p]), r"Expected 1 rows of 32 bytes from shop"),
        (THREE, "shop", 1, lambda p: p[:-1], r"table in three parts from shop"),
        (THREE, "shop", 1, lambda p: p[:100], rf"Expected {okvs.rows_for(0)} to \d+ rows of 16 bytes from shop"),
    ],
)
def test_refusals(columns, party, number, change, words):
    with pytest.raises(ProtocolError, match=words):
        run(columns, party, number, change)


def test_more_ids_than_the_cap():
    huge = torch.zeros(1, 32, dtype=torch.uint8).expand(payload.MOST_IDS + 1, 32)  # takes no memory
    with pytest.raises(ProtocolError, match="Expected 0 to 50000000 rows of 32 bytes from bank"):
        payload.points_in(Message(BATCH, "bank", "shop", Kind.POINTS, huge))


def test_a_message_too_many():
    started = talks(TWO)

    def twice(talk):
        answer = None
        while True:
            try:
                message = talk.send(answer)
            except StopIteration as end:
                return end.value
            if message is not None and message.payload.shape[1] == 16:
                yield replace(message, kind=Kind.SETUP)
            answer = yield message

    started["shop"] = twice(started["shop"])
    with pytest.raises(ProtocolError, match="nothing more to align by from shop, got a setup"):
        exchange(started, lambda message: None)


def test_wrong_tables_find_nothing_and_break_nothing():
    rows = run(THREE, "shop", 1, lambda p: p ^ 85)
    assert all(len(each) == 0 for each in rows.values())
