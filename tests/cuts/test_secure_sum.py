"""Secure sum against a plaintext network whose active block starts at W_A + W_mask."""

import copy

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import cutlayer as cl
from cutlayer.auditing.attacking import attack_run
from cutlayer.cuts.encrypted_layer import EncryptedLayer
from cutlayer.cuts.parts.floating import OpenAgreement
from cutlayer.cuts.parts.masking import Holder, bound_of, places_of
from cutlayer.cuts.secure_sum import SecureSum, _size
from cutlayer.data.task import Task
from cutlayer.errors import ConfigError, DataError, ProtocolError
from cutlayer.experiment.presets import preset
from cutlayer.message import Batch, Kind, Message, Phase
from cutlayer.models.mlp import MLP
from cutlayer.plan import Plan, assemble
from cutlayer.settings import read_attacks
from cutlayer.transcript import Keep, Policy, Transcript
from tests.helpers.random_task import random_task

ROWS, WIDTH = 64, 5


def make_task(parties: int, columns: int = 4, scale: float = 1.0, own: bool = True) -> Task:
    return random_task("secure sum", ROWS, parties, columns, scale, own)


def bottom(deep: bool):
    return lambda features, width: MLP(features.values.shape[1], [6, width] if deep else [width], bias=False)


def top(inputs: int, outputs: int) -> nn.Module:
    return MLP(inputs, [8, outputs], first_activation=True)


def plan_of(cut, deep=False, epochs=4):
    recipe = cl.Recipe(epochs=epochs, batch_size=16, lr=0.05, optimiser=cl.Optimiser.SGD, momentum=0.9)
    return Plan(bottoms=bottom(deep), top=top, width=WIDTH, cut=cut, recipe=recipe)


def holder_of(session) -> Holder:
    return next(p.cut._holder for p in session.parties.values() if getattr(p.cut, "_holder", None))


class Shifted(nn.Module):
    """A bottom whose last layer has W_mask added: the plaintext reference."""

    def __init__(self, inner: MLP, mask: torch.Tensor) -> None:
        super().__init__()
        self.inner, self.mask = inner, mask

    def forward(self, inputs):
        hidden = self.inner.layers[:-1](inputs)
        return self.inner.layers[-1](hidden) + hidden @ self.mask


def reference(task: Task, plan: Plan, mask: torch.Tensor):
    """The same session with an open sum and the label party's block moved by W_mask."""
    session = assemble(task, Plan(**{**vars(plan), "cut": cl.Sum()}), lambda message: None)
    label = session.label_party
    label.bottom = label.modules["bottom"] = Shifted(label.bottom, mask)
    return session


@pytest.mark.parametrize("parties", [2, 3, 5])
@pytest.mark.parametrize(
    ("scheme", "deep"), [("bfv", False), ("paillier", False), ("none", False), ("none", True)], ids=str
)
def test_training_equals_the_plaintext_network_that_starts_at_the_shifted_weights(parties, deep, scheme, monkeypatch):
    small_keys(monkeypatch)
    task = make_task(parties)
    epochs = 10 if parties > 2 else 50  # 40 or 200 steps
    plan = plan_of(SecureSum(scheme=scheme), deep)
    session = assemble(task, plan, lambda message: None)
    first = session.predict(task.test)
    other = reference(task, plan, weights_of(session))
    torch.testing.assert_close(first, other.predict(task.test), atol=2e-4, rtol=0)
    for epoch in range(epochs):
        loss, expected = (s.train_epoch(epoch, task.train) for s in (session, other))
        assert loss == pytest.approx(expected, abs=2e-3)
    torch.testing.assert_close(session.predict(task.test), other.predict(task.test), atol=2e-2, rtol=0)


def weights_of(session) -> torch.Tensor:
    holder = holder_of(session)
    inputs = holder.weights.shape[0]
    if holder.weights.dtype == np.float64:  # scheme=none
        return torch.from_numpy(holder.weights).float()
    weights = torch.from_numpy(np.ldexp(holder.weights.astype(np.float64), -places_of(inputs))).float()
    assert weights.abs().max() <= bound_of(inputs)
    return weights


def small_keys(monkeypatch):
    """Paillier with a key for tests: the arithmetic is the same."""
    import cutlayer.cuts.parts.masking as masking

    real = masking.Paillier
    monkeypatch.setattr(masking, "Paillier", lambda ring: real(ring, 512, for_tests=True))


def recorded(parties=3, deep=False, cut=None, epochs=2, own=True):
    """A short training, everything kept."""
    task = make_task(parties, own=own)
    transcript = Transcript(Keep(Policy.ALL))
    session = assemble(task, plan_of(cut or SecureSum(), deep), transcript.record)
    for epoch in range(epochs):
        transcript.begin_epoch(epoch, epoch == epochs - 1)
        session.train_epoch(epoch, task.train)
    return task, session, transcript


def sent(transcript, sender, receiver, kind):
    return transcript.channels[sender, receiver, kind, Phase.TRAIN]


def test_encryption_costs_one_pass_where_the_label_partys_rows_do_not_change():
    _, _, transcript = recorded(parties=2, epochs=3)
    steps = sent(transcript, "p0", "p1", Kind.CIPHER).entries["epoch"]
    assert set(steps) == {0} and len(steps) == 4
    _, _, anew = recorded(parties=2, epochs=2, deep=True, cut=SecureSum(scheme="none"))
    assert len(sent(anew, "p0", "p1", Kind.CIPHER)) == 2 * 4  # in the clear every batch is multiplied anew


def test_the_sum_is_noted_but_crosses_nothing():
    task, _, transcript = recorded(parties=3, epochs=1)
    note = sent(transcript, "p0", "p0", Kind.SUM)
    assert transcript.bytes["p0", "p0", Phase.TRAIN] == 0
    rows, values, _ = note.read()
    assert values.shape == (ROWS, WIDTH) and set(rows.tolist()) == set(task.train.tolist())


def test_what_each_party_sees_is_spread_over_the_whole_ring():
    """A crude look at every masked channel (unmasked, numbers lie near 0 and 2^40: variance 1/4); exact
    uniformity is tested where masks are drawn."""
    _, session, transcript = recorded(parties=3, epochs=2)
    for name in ("p1", "p2"):
        values = sent(transcript, name, "p0", Kind.EMBEDDING).read()[1].double() / 2**40
        assert abs(float(values.mean()) - 0.5) < 0.1 and abs(float(values.var()) - 1 / 12) < 0.03
    shares = session.parties["p1"].cut._shares.of(np.arange(ROWS)).astype(float) / 2**40
    assert abs(shares.mean() - 0.5) < 0.1 and abs(shares.var() - 1 / 12) < 0.03  # six standard errors


def test_several_feature_parties_never_repeat_a_mask_between_epochs():
    """Fixed shares alone would show the label party how each party's embedding of a row changes."""
    _, _, transcript = recorded(parties=3, epochs=2)
    for name in ("p1", "p2"):
        rows, values, _ = sent(transcript, name, "p0", Kind.EMBEDDING).read()
        first, second = values[:ROWS][rows[:ROWS].argsort()], values[ROWS:][rows[ROWS:].argsort()]
        change = ((second - first + 2**39) % 2**40 - 2**39).double() / 2**40
        assert float(change.var()) > 1 / 20  # uniform again, not the small change of an embedding


def test_with_two_parties_a_fixed_share_tells_no_more_than_the_sum_does():
    """The claim of docs/explanation-secure-sum.md: change of the message = change of the opened sum."""
    _, _, transcript = recorded(parties=2, epochs=2)
    rows, values, _ = sent(transcript, "p1", "p0", Kind.EMBEDDING).read()
    note_rows, opened, _ = sent(transcript, "p0", "p0", Kind.SUM).read()
    assert torch.equal(rows, note_rows)
    halves = [slice(0, ROWS), slice(ROWS, 2 * ROWS)]
    message, total = (
        [part[half][rows[half].argsort()] for half in halves]
        for part in (values, (opened.double() * 2**24).round().long())
    )
    change = (message[1] - message[0] + 2**39) % 2**40 - 2**39
    assert (change - (total[1] - total[0])).abs().max() <= 32  # the opened sum is rounded to float32: 2e-6 in all


def test_a_label_party_without_columns_hides_its_partners_in_each_other():
    task, _, transcript = recorded(parties=3, own=False, epochs=1)
    open_session = assemble(task, plan_of(cl.Sum()), lambda message: None)
    assert all(kind is not Kind.CIPHER for _, _, kind, _ in transcript.channels)
    fresh = assemble(task, plan_of(SecureSum()), lambda message: None)
    torch.testing.assert_close(fresh.predict(task.test), open_session.predict(task.test), atol=1e-5, rtol=0)


def test_a_run_can_be_resumed_and_saved(tmp_path):
    task = make_task(2)
    recipe = cl.Recipe(epochs=2, batch_size=16)

    def run_to(out):
        return cl.train(task, bottoms=bottom(False), top=top, width=WIDTH, cut=SecureSum(), recipe=recipe, out=out)

    run, again = run_to(tmp_path / "run"), run_to(None)
    assert run.metrics == again.metrics
    assert copy.deepcopy(run.session.parties["p0"].modules["bottom"]).entered is None


@settings(max_examples=15)
@given(columns=st.integers(1, 9), scale=st.sampled_from([1e-3, 1.0, 50.0]), parties=st.integers(2, 4))
def test_one_batch_equals_the_plaintext_for_any_shape_and_size(columns, scale, parties):
    task, plan = make_task(parties, columns, scale), plan_of(SecureSum(), epochs=1)
    session = assemble(task, plan, lambda message: None)
    got = session.predict(task.test)
    torch.testing.assert_close(got, reference(task, plan, weights_of(session)).predict(task.test), atol=1e-2, rtol=1e-3)


@pytest.mark.parametrize("scale", [1e6])
def test_what_does_not_fit_the_ring_is_refused_not_wrapped_round(scale):
    task = make_task(2, scale=scale)
    session = assemble(task, plan_of(SecureSum()), lambda message: None)
    with pytest.raises(DataError, match="no room for larger ones"):
        session.predict(task.test)


def test_one_party_with_columns_is_refused():
    task = make_task(2)
    alone = Task(**{**vars(task), "features": {"p1": task.features["p1"]}})
    with pytest.raises(ConfigError, match="two parties with columns"):
        assemble(alone, plan_of(SecureSum()), lambda message: None).predict(task.test)


def test_a_bottom_that_ends_in_an_activation_is_refused():
    with pytest.raises(ConfigError, match="end in a linear layer"):
        SecureSum().begin(label_setting(), MLP(3, [4], last_activation=True))


@pytest.mark.parametrize("scheme", ["bfv", "paillier"])
@pytest.mark.parametrize("parties", [2, 3])
def test_layers_before_the_label_partys_last_one_are_refused(parties, scheme):
    with pytest.raises(ConfigError, match=r"one linear layer as the label party's bottom.*use --bottom linear"):
        assemble(make_task(parties), plan_of(SecureSum(scheme=scheme), deep=True), lambda message: None)
    assemble(make_task(3, own=False), plan_of(SecureSum(scheme=scheme), deep=True), lambda message: None)


def test_a_size_that_is_not_one_is_refused():
    for payload in (torch.zeros(1), torch.tensor([3, 1])):
        message = Message(Batch(0, Phase.TRAIN, torch.arange(3)), "p0", "p1", Kind.SETUP, payload)
        with pytest.raises(ProtocolError, match="one size from p0"):
            _size(message)


def label_setting():
    session = assemble(make_task(2), plan_of(cl.Sum()), lambda message: None)
    return session.label_party.setting


@pytest.mark.parametrize("damage", ["short", "other numbers", "out of range"])
def test_a_share_that_is_not_one_is_refused(damage):
    cut, rows = SecureSum(), torch.arange(3)
    cut.begin(label_setting(), None)
    payload = torch.zeros(3, WIDTH, dtype=torch.int64)
    if damage == "short":
        payload = payload[:2]
    elif damage == "other numbers":
        payload = payload.double()
    else:
        payload[0, 0] = 2**40
    message = Message(Batch(0, Phase.TRAIN, rows), "p1", "p0", Kind.EMBEDDING, payload)
    with pytest.raises((ProtocolError, DataError), match=r"p1"):
        cut._residues(message, message.batch)


@pytest.mark.parametrize(
    ("own", "cut"), [(True, SecureSum()), (False, SecureSum()), (False, EncryptedLayer(width=WIDTH))]
)
def test_every_attack_answers_a_run_under_encryption(own, cut):
    """A finding or a reason, never a traceback."""
    recipe = cl.Recipe(epochs=1, batch_size=16)
    run = cl.train(
        make_task(3, own=own), bottoms=bottom(False), top=top, width=WIDTH, cut=cut, recipe=recipe, keep="last"
    )
    for finding in attack_run(run, read_attacks(preset("quick").attacks)):
        assert finding.status == "done" or finding.reason


def test_open_masks_cancel_and_differ_by_step_and_pair():
    sides = {name: OpenAgreement(name, 7).meet({other: b"\0" for other in "abc" if other != name}) for name in "abc"}
    masks = {step: [side.zero_sum_mask(step, (4, 3)) for side in sides.values()] for step in (0, 1)}
    for step in masks:
        assert np.abs(sum(masks[step])).max() < 1e-12 and all(np.abs(mask).max() > 1 for mask in masks[step])
    assert not np.allclose(masks[0][0], masks[1][0])
    assert not np.allclose(masks[0][0], -masks[0][1])  # each pair has its own
