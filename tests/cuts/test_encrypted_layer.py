"""The encrypted layer against a plaintext network with one more linear layer per feature party."""

import numpy as np
import pytest
import torch
from torch import nn

import cutlayer as cl
import cutlayer.cuts
import cutlayer.cuts.masking as masking
from cutlayer import training
from cutlayer.cut import Cut
from cutlayer.cuts.encrypted_layer import EncryptedLayer
from cutlayer.cuts.layer_ends import NoiseEnd, stretch
from cutlayer.data.task import Features, Goal, Task
from cutlayer.errors import ConfigError, DataError, ProtocolError
from cutlayer.message import Batch, Kind, Message, Phase
from cutlayer.models.mlp import MLP
from cutlayer.plan import Plan, assemble
from cutlayer.rng import generator
from cutlayer.run import Run
from cutlayer.spec import describe, parse
from cutlayer.training import train_plan
from cutlayer.transcript import Keep, Transcript

ROWS, WIDTH = 32, 3


@pytest.fixture(autouse=True)
def small_keys(monkeypatch):
    """Paillier with a key for tests: the arithmetic is the same."""
    real = masking.Paillier
    monkeypatch.setattr(masking, "Paillier", lambda ring: real(ring, 512, for_tests=True))


def make_task(parties=2, columns=2, scale=1.0, own=True) -> Task:
    rng = generator(parties, "encrypted layer")
    names = [f"p{i}" for i in range(parties)]
    features = {name: Features(scale * torch.randn(ROWS, columns, generator=rng)) for name in names}
    labels = (sum(f.values.sum(1) for f in features.values()) > 0).long()
    return Task(
        name="toy",
        features=features,
        labels=labels,
        label_party=names[0] if own else "server",
        goal=Goal.BINARY,
        classes=("no", "yes"),
        train=torch.arange(ROWS),
        test=torch.arange(8),
    )


def bottom(features, width):
    return MLP(features.values.shape[1], [width], activation="tanh", last_activation=True)


def top(inputs: int, outputs: int) -> nn.Module:
    return MLP(inputs, [4, outputs], activation="tanh", first_activation=True)


def plan_of(cut=None, epochs=2, **changes):
    recipe = cl.Recipe(epochs=epochs, batch_size=8, lr=0.2, optimiser=cl.Optimiser.SGD, momentum=0.0)
    cut = cut or EncryptedLayer(width=WIDTH, lr=0.2, scheme="paillier")
    return Plan(**{"bottoms": bottom, "top": top, "width": WIDTH, "cut": cut, "recipe": recipe} | changes)


def weights_of(session, name) -> torch.Tensor:
    """W = W~ + N, which no party can compute."""
    label, feature = session.label_party.cut, session.parties[name].cut
    terms = label._ends[name].terms
    total = label._ring.add(label._kept.find(f"weights {name}"), feature._noise(terms))
    return torch.from_numpy(label._ring.decode(total, terms.places.weights)).float()


class Layered(nn.Module):
    """A bottom with the layer behind it, in the open."""

    def __init__(self, inner: nn.Module, weights: torch.Tensor) -> None:
        super().__init__()
        self.inner, self.layer = inner, nn.Linear(*weights.shape, bias=False)
        self.layer.weight.data = weights.T.contiguous()

    def forward(self, inputs):
        return self.layer(self.inner(inputs))


def reference(task: Task, plan: Plan, weights: dict[str, torch.Tensor]):
    """The same session with an open sum and the layers at the feature parties."""
    session = assemble(task, Plan(**{**vars(plan), "cut": cl.Sum()}), lambda message: None)
    for name, some in weights.items():
        party = session.parties[name]
        party.bottom = party.modules["bottom"] = Layered(party.bottom, some)
        party.parameters = list(party.bottom.parameters())
        party.optimizer = plan.recipe.optimizer(party.parameters)
    return session


@pytest.mark.parametrize(
    ("parties", "scheme", "bits", "tolerance"),
    [
        (2, "paillier", 40, 5e-3),
        (3, "paillier", 48, 3e-4),
        (2, "bfv", 48, 3e-4),
        (3, "bfv", 40, 5e-3),
    ],
)
def test_training_equals_the_plaintext_network(parties, scheme, bits, tolerance):
    task, plan = make_task(parties), plan_of(EncryptedLayer(width=WIDTH, lr=0.2, scheme=scheme, bits=bits))
    session = assemble(task, plan, lambda message: None)
    first = session.predict(task.test)
    start = {name: weights_of(session, name) for name in task.feature_parties}
    other = reference(task, plan, start)
    torch.testing.assert_close(first, other.predict(task.test), atol=tolerance / 10, rtol=0)
    for epoch in range(25):  # 100 steps
        loss, expected = (each.train_epoch(epoch, task.train) for each in (session, other))
        assert loss == pytest.approx(expected, abs=tolerance / 10)
    torch.testing.assert_close(session.predict(task.test), other.predict(task.test), atol=tolerance, rtol=0)
    for name in task.feature_parties:
        weights, expected = weights_of(session, name), other.parties[name].bottom.layer.weight.T
        assert (weights - start[name]).abs().max() > 0.1
        torch.testing.assert_close(weights, expected, atol=tolerance, rtol=0)


def test_both_backends_give_the_same_bits():
    task, losses, kept = make_task(), [], []
    for scheme in ("bfv", "paillier"):
        session = assemble(task, plan_of(EncryptedLayer(width=WIDTH, scheme=scheme)), lambda message: None)
        losses.append(session.train_epoch(0, task.train))
        kept.append(session.label_party.cut._kept.find("weights p1"))
    assert losses[0] == losses[1] and np.array_equal(*kept)


@pytest.mark.parametrize("parties", [1, 2])
def test_a_label_party_without_columns_gets_the_layers_sum(parties):
    task, plan = make_task(parties, own=False), plan_of()
    session = assemble(task, plan, lambda message: None)
    got = session.predict(task.test)
    other = reference(task, plan, {name: weights_of(session, name) for name in task.features})
    torch.testing.assert_close(got, other.predict(task.test), atol=5e-4, rtol=0)
    session.train_epoch(0, task.train)


def recorded(parties=2, epochs=1, **settings):
    """A short training, everything kept."""
    task, transcript = make_task(parties), Transcript(Keep("all"))
    cut = EncryptedLayer(**{"width": WIDTH, "lr": 0.2, "scheme": "paillier"} | settings)
    session = assemble(task, plan_of(cut), transcript.record)
    for epoch in range(epochs):
        session.train_epoch(epoch, task.train)
    return task, session, transcript


def spread(values) -> bool:
    """Whether residues of 40 bits look uniform: a crude look; the masks themselves are tested where they are drawn."""
    part = np.asarray(values, np.float64).ravel() / 2**40
    return abs(part.mean() - 0.5) < 0.07 and abs(part.var() - 1 / 12) < 0.02


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
    forward, weights, gradient = (np.concatenate([m.ravel() for m in seen[i::3]]) for i in range(3))
    assert spread(forward) and spread(weights) and not spread(gradient)


def test_what_each_side_opens_is_noted_and_crosses_nothing():
    task, _, transcript = recorded(parties=3)
    assert transcript.bytes["p0", "p0", Phase.TRAIN] == transcript.bytes["p1", "p1", Phase.TRAIN] == 0
    rows, opened, _ = transcript.channels["p0", "p0", Kind.SUM, Phase.TRAIN].read()
    assert opened.shape == (ROWS, 2 * WIDTH) and set(rows.tolist()) == set(task.train.tolist())
    gradient = transcript.channels["p1", "p1", Kind.GRADIENT, Phase.TRAIN].read()[1]
    assert gradient.shape == (ROWS, WIDTH) and gradient.dtype is torch.float32
    assert float(gradient.abs().max()) > 0


def test_until_the_first_step_the_label_party_knows_w_and_solves_for_the_embedding():
    """A weakness of the protocol: N starts at zero. One step later the same sum gives nothing like it."""
    task = make_task()
    session = assemble(task, plan_of(), lambda message: None)
    feature = session.parties["p1"]
    for known in (True, False):
        transcript = Transcript()
        session.predict(task.test, transcript.write)
        opened = transcript.channels["p0", "p0", Kind.SUM, Phase.PREDICT].read()[1].double()
        label = session.label_party.cut
        mine = label._ring.decode(label._kept.find("weights p1"), label._ends["p1"].terms.places.weights)
        guess = opened @ torch.linalg.pinv(torch.from_numpy(mine))
        alpha = feature.bottom(task.features["p1"].values[task.test]).detach()
        error = float((guess - alpha).abs().max())
        assert error < 0.05 if known else error > 0.5
        session.train_epoch(0, task.train)


def test_noise_accumulates_step_by_step():
    _, session, _ = recorded(epochs=2)
    end, seed = session.parties["p1"].cut._end, session.parties["p1"].setting.private_seed
    draws = [stretch(seed, "noise", step, (WIDTH, WIDTH), 39) for step in range(session.step)]
    steps = [end.terms.step(draw, 8) for draw in draws]
    expected = sum(steps) & (2**40 - 1)
    assert np.array_equal(session.parties["p1"].cut._kept.find("noise"), expected)
    assert len({step.tobytes() for step in steps}) == 8
    assert all(np.abs(step).max() <= 0.2 * 2**12 * 2**18 for step in steps)  # the bound that the docstring states


class Stop(Exception):
    pass


def test_an_interrupted_run_resumes_to_the_same_model(tmp_path, monkeypatch):
    monkeypatch.setattr(training, "CHECKPOINT_SECONDS", 0.0)
    task, plan = make_task(), plan_of(epochs=3)

    def stop(done, steps, text):
        if done == 6:
            raise Stop

    whole = train_plan(task, plan, out=tmp_path / "whole")
    with pytest.raises(Stop):
        train_plan(task, plan, out=tmp_path / "cut", progress=stop)
    resumed = train_plan(task, plan, out=tmp_path / "cut", resume=True)
    assert resumed.to_json()["models"] == whole.to_json()["models"]
    assert resumed.history == whole.history
    assert {"p0.cut", "p1.cut"} <= set(whole.to_json()["models"])
    again = Run.open(tmp_path / "whole", task, plan)
    torch.testing.assert_close(again.predict(task.test), whole.predict(task.test), atol=1e-3, rtol=0)


def test_early_stopping_puts_both_halves_of_the_weights_back():
    task = make_task()
    task = Task(**{**vars(task), "train": torch.arange(24), "valid": torch.arange(24, 32)})
    recipe = cl.Recipe(epochs=4, batch_size=8, lr=1.0, optimiser=cl.Optimiser.SGD, patience=1)
    run = train_plan(task, plan_of(EncryptedLayer(width=WIDTH, lr=2.0, scheme="paillier"), recipe=recipe))
    best = min(record["valid_loss"] for record in run.history)
    outputs = run.session.predict(task.valid)
    assert float(nn.functional.cross_entropy(outputs, task.labels[task.valid])) == pytest.approx(best, abs=1e-3)


def test_a_defence_on_gradients_changes_what_is_sent_and_not_the_layers_step():
    class Nothing(cl.Defence):
        def protect(self, payload, local):
            return torch.zeros_like(payload) if local.place is cl.Place.GRADIENT else payload

    task, plan = make_task(), plan_of(defences=(Nothing(),))
    session = assemble(task, plan, lambda message: None)
    session.predict(task.test)
    weights, before = weights_of(session, "p1"), session.parties["p1"].bottom.layers[1].weight.clone()
    session.train_epoch(0, task.train)
    assert (session.parties["p1"].bottom.layers[1].weight - before).abs().max() < 1e-4  # the blur alone
    assert (weights_of(session, "p1") - weights).abs().max() > 1e-3


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
        (torch.tensor([3, 0, 0, 0, 1], dtype=torch.uint8), "a public key"),
    ],
)
def test_an_introduction_that_is_not_one_is_refused(payload, words):
    cut = assemble(make_task(), plan_of(), lambda message: None).label_party.cut
    with pytest.raises(ProtocolError, match=words):
        cut._weights_end(message_from_p1(Kind.SETUP, payload))


def test_a_party_that_comes_back_with_another_width_is_refused():
    _, session, _ = recorded()
    key = session.parties["p1"].cut._end.secret.public.to_bytes()
    data = torch.frombuffer(bytearray((WIDTH + 1).to_bytes(4, "little") + key), dtype=torch.uint8)
    with pytest.raises(ProtocolError, match="embedding of 3 numbers from p1, got 4"):
        session.label_party.cut._weights_end(message_from_p1(Kind.SETUP, data))


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
