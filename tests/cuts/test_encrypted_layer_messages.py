"""What crosses under the encrypted layer, what each side opens, and what is refused."""

import numpy as np
import pytest
import torch

import cutlayer.cuts
from cutlayer.cut import Cut
from cutlayer.cuts.encrypted_layer import EncryptedLayer
from cutlayer.cuts.parts.layer_ends import NoiseEnd
from cutlayer.errors import ConfigError, DataError, ProtocolError
from cutlayer.message import Batch, Kind, Message, Phase
from cutlayer.models.mlp import MLP
from cutlayer.plan import assemble
from cutlayer.spec import describe, parse
from tests.helpers.layered import ROWS, WIDTH, make_task, plan_of, recorded
from tests.helpers.layered import small_keys as small_keys


def spread(values) -> bool:
    """Whether residues of 40 bits have a uniform's mean and variance, to six standard errors."""
    part = np.asarray(values, np.float64).ravel() / 2**40
    error = 6 / len(part) ** 0.5
    return abs(part.mean() - 1 / 2) < error * (1 / 12) ** 0.5 and abs(part.var() - 1 / 12) < error * (1 / 180) ** 0.5


def test_only_keys_ciphertexts_and_uniform_shares_cross(monkeypatch):
    seen: list[np.ndarray] = []
    real = NoiseEnd._open

    def spy(end, data, rows, of, for_rows=None):
        seen.append(real(end, data, rows, of, for_rows))
        return seen[-1]

    monkeypatch.setattr(NoiseEnd, "_open", spy)
    _, _, transcript = recorded(epochs=4)
    crossing = {(s, r, k) for s, r, k, _ in transcript.channels if s != r}
    assert crossing == {
        ("p1", "p0", Kind.SETUP),
        ("p1", "p0", Kind.CIPHER),
        ("p1", "p0", Kind.SHARE),
        ("p0", "p1", Kind.CIPHER),  # delta, W~ and alpha W reach the feature party in no other way
    }
    channels = {address[:3]: channel for address, channel in transcript.channels.items()}
    assert all(channels[address].read()[1].dtype in (torch.uint8, torch.int64) for address in crossing)
    assert spread(channels["p1", "p0", Kind.SHARE].read()[1])
    (_, *batches) = seen  # the first is N as it starts
    forward, weights, gradient = (np.concatenate([m.ravel() for m in batches[i::3]]) for i in range(3))
    assert spread(forward) and spread(weights) and not spread(gradient)


def test_what_each_side_opens_is_noted_and_crosses_nothing():
    task, _, transcript = recorded(parties=3)
    assert transcript.bytes["p0", "p0", Phase.TRAIN] == transcript.bytes["p1", "p1", Phase.TRAIN] == 0
    rows, opened, _ = transcript.channels["p0", "p0", Kind.SUM, Phase.TRAIN].read()
    assert opened.shape == (ROWS, 2 * WIDTH) and set(rows.tolist()) == set(task.train.tolist())
    gradient = transcript.channels["p1", "p1", Kind.GRADIENT, Phase.TRAIN].read()[1]
    assert gradient.shape == (ROWS, WIDTH) and gradient.dtype is torch.float32
    assert float(gradient.abs().max()) > 0


def test_embeddings_too_large_for_the_ring_are_refused():
    session = assemble(make_task(scale=1e6), plan_of(bottoms=lambda f, w: MLP(2, [w])), lambda message: None)
    with pytest.raises(DataError, match="within 128 of zero"):
        session.predict(torch.arange(8))


def test_a_layer_that_outgrows_the_ring_is_refused_not_wrapped_round():
    task = make_task()
    session = assemble(task, plan_of(EncryptedLayer(width=WIDTH, lr=3e4, scheme="paillier")), lambda message: None)
    with pytest.raises(DataError, match=r"outgrew: use a smaller lr"):
        for epoch in range(3):
            session.train_epoch(epoch, task.train)


def message_from_p1(kind, payload, rows=3):
    return Message(Batch(0, Phase.TRAIN, torch.arange(rows)), "p1", "p0", kind, payload)


@pytest.mark.parametrize(
    ("payload", "words"),
    [
        (torch.zeros(3), "bytes from p1"),
        (torch.zeros(3, dtype=torch.uint8), "cut short|at most"),
        (torch.tensor([0, 0, 0, 0, 1], dtype=torch.uint8), "at most 1048576 numbers from p1"),
        (torch.tensor([255, 255, 255, 255, 1], dtype=torch.uint8), "at most 1048576 numbers from p1"),
        (torch.tensor([3, 0, 0, 0, 1, 1], dtype=torch.uint8), "a public key"),
    ],
)
def test_an_introduction_that_is_not_one_is_refused(payload, words):
    cut = assemble(make_task(), plan_of(), lambda message: None).label_party.cut
    with pytest.raises(ProtocolError, match=words):
        cut._weights_end(message_from_p1(Kind.SETUP, payload))


def test_a_party_that_comes_back_with_another_width_is_refused():
    _, session, _ = recorded()
    key = session.parties["p1"].cut._end.secret.public.to_bytes()
    for starts, words in ((0, "embedding of 3 numbers from p1, got 4"), (1, "it starts a new layer; start both anew")):
        head = (WIDTH + 1).to_bytes(4, "little") + bytes([starts])
        data = torch.frombuffer(bytearray(head + key), dtype=torch.uint8)
        with pytest.raises(ProtocolError, match=words):
            session.label_party.cut._weights_end(message_from_p1(Kind.SETUP, data))


def test_a_party_that_goes_on_with_a_layer_that_is_not_here_is_refused():
    _, session, _ = recorded()
    key = session.parties["p1"].cut._end.secret.public.to_bytes()
    data = torch.frombuffer(bytearray(WIDTH.to_bytes(4, "little") + bytes([0]) + key), dtype=torch.uint8)
    fresh = assemble(make_task(), plan_of(), lambda message: None).label_party.cut
    with pytest.raises(ProtocolError, match="a layer that is not here"):
        fresh._weights_end(message_from_p1(Kind.SETUP, data))


@pytest.mark.parametrize("damage", ["short", "other numbers", "out of range", "cut short", "other shape"])
def test_a_damaged_message_ends_in_one_sentence(damage):
    task, plan = make_task(), plan_of()

    def harm(message):
        payload = message.payload
        if message.kind is Kind.SHARE and damage in ("short", "other numbers", "out of range"):
            object.__setattr__(
                message,
                "payload",
                {"short": payload[:2], "other numbers": payload.double(), "out of range": payload + 2**40}[damage],
            )
        if message.kind is Kind.CIPHER and damage in ("cut short", "other shape"):
            changed = payload[:-1] if damage == "cut short" else torch.cat([payload[:37], payload[:4], payload[41:]])
            object.__setattr__(message, "payload", changed)

    with pytest.raises(ProtocolError) as raised:
        assemble(task, plan, harm).train_epoch(0, task.train)
    assert str(raised.value).count(". ") == 0


def test_the_joint_input_has_the_layers_width_and_the_label_party_must_match_it():
    cut = EncryptedLayer(width=5)
    assert cut.shape([(3,), (64,)]) == (5,)
    with pytest.raises(ConfigError, match="flat embeddings"):
        cut.shape([(3,), (3, 8, 8)])
    task = make_task()
    session = assemble(task, plan_of(EncryptedLayer(width=5, scheme="paillier")), lambda message: None)
    with pytest.raises(ConfigError, match="width 5 from the label party"):
        session.predict(task.test)


@pytest.mark.parametrize(
    "settings", [{"width": 0}, {"lr": 0.0}, {"lr": float("nan")}, {"bits": 32}, {"scheme": "ckks"}]
)
def test_settings_outside_what_is_allowed_are_refused(settings):
    with pytest.raises(ConfigError):
        EncryptedLayer(**settings)


def test_it_is_spelt_on_the_command_line():
    cut = parse("encrypted-layer:width=8,bits=48", cutlayer.cuts, Cut, "cut")
    assert isinstance(cut, EncryptedLayer) and describe(cut) == "encrypted-layer:width=8,bits=48"
