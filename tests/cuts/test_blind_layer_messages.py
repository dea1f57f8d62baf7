"""What the blind layer refuses: messages that are not what they should be, and numbers that have no room."""

import numpy as np
import pytest
import torch

import cutlayer.cuts
from cutlayer.cut import Cut
from cutlayer.cuts.blind_layer import BlindLayer
from cutlayer.cuts.parts.blind_ends import OWN
from cutlayer.errors import ConfigError, DataError, ProtocolError
from cutlayer.message import Kind
from cutlayer.plan import assemble
from cutlayer.spec import describe, parse
from tests.helpers.blind import COLUMNS, WIDTH, make_task, plan_of, recorded


def replaced(message, payload):
    object.__setattr__(message, "payload", payload)


@pytest.mark.parametrize("sender", ["p0", "p1"])
@pytest.mark.parametrize("damage", ["cut short", "other shape", "numbers"])
def test_a_damaged_ciphertext_ends_in_one_sentence(sender, damage):
    task = make_task()

    def harm(message):
        if message.kind is Kind.CIPHER and message.sender == sender:
            data = message.payload
            changes = {
                "cut short": lambda: data[:-1],
                "other shape": lambda: torch.cat([data[:37], data[:4], data[41:]]),
                "numbers": data.float,
            }
            replaced(message, changes[damage]())

    with pytest.raises(ProtocolError) as raised:
        assemble(task, plan_of(), harm).train_epoch(0, task.train)
    assert str(raised.value).count(". ") == 0


@pytest.mark.parametrize(
    ("payload", "words"),
    [
        (torch.tensor([0]), "at most 1048576 columns from p1, got 0"),
        (torch.tensor([2**40]), "at most 1048576 columns from p1"),
        (torch.tensor([1, 2]), "a number of columns from p1"),
        (torch.tensor([2.0]), "a number of columns from p1"),
    ],
)
def test_a_number_of_columns_that_is_none_is_refused(payload, words):
    task = make_task()

    def harm(message):
        if message.kind is Kind.SETUP and message.sender == "p1" and message.payload.dtype is torch.int64:
            replaced(message, payload)

    with pytest.raises(ProtocolError, match=words):
        assemble(task, plan_of(), harm).train_epoch(0, task.train)


def test_a_key_of_another_scheme_is_refused():
    task, key = make_task(), BlindLayer(scheme="paillier")
    other = assemble(task, plan_of(key), lambda message: None)
    other.predict(task.test)
    foreign = other.label_party.cut._ends["p1"].secret.public.to_bytes()

    def harm(message):
        if message.kind is Kind.SETUP and message.sender == "p0" and message.payload.dtype is torch.uint8:
            replaced(message, torch.frombuffer(bytearray(foreign), dtype=torch.uint8))

    with pytest.raises(ProtocolError):
        assemble(task, plan_of(), harm).train_epoch(0, task.train)


@pytest.mark.parametrize(("party", "kept"), [("p0", "p1"), ("p1", OWN)])
def test_a_party_that_comes_back_with_other_columns_is_refused(party, kept):
    task, session, _ = recorded()
    later = assemble(task, plan_of(), lambda message: None)
    for name in session.parties:
        later.parties[name].cut.memory.load_state_dict(session.parties[name].cut.memory.state_dict())
    later.parties[party].cut._memory.put(kept, np.zeros((COLUMNS + 1, WIDTH), np.int64))
    with pytest.raises(ProtocolError, match=r"Expected 3 columns from p\d, as the saved weights have, got 2"):
        later.predict(task.test)


def test_columns_and_sums_out_of_range_are_refused_not_wrapped_round():
    task = make_task(scale=1e5)
    with pytest.raises(DataError, match="columns within 1024 of zero"):
        assemble(task, plan_of(), lambda message: None).predict(task.test)
    task = make_task()
    session = assemble(task, plan_of(BlindLayer(width=WIDTH, lr=1e5)), lambda message: None)
    with pytest.raises(DataError, match="use a smaller lr"):
        for epoch in range(3):
            session.train_epoch(epoch, task.train)


@pytest.mark.parametrize(
    "settings", [{"width": 0}, {"lr": 0.0}, {"lr": float("nan")}, {"momentum": -0.1}, {"scheme": "none"}]
)
def test_settings_outside_what_is_allowed_are_refused(settings):
    with pytest.raises(ConfigError):
        BlindLayer(**settings)


def test_it_is_spelt_on_the_command_line():
    cut = parse("blind-layer:width=8,momentum=0.9", cutlayer.cuts, Cut, "cut")
    assert isinstance(cut, BlindLayer) and describe(cut) == "blind-layer:width=8,momentum=0.9"
