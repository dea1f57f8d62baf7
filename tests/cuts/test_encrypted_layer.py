"""The encrypted layer against a plaintext network with one more linear layer per feature party."""

import numpy as np
import pytest
import torch
from torch import nn

import cutlayer as cl
import cutlayer.cuts
from cutlayer import training
from cutlayer.cuts.encrypted_layer import EncryptedLayer
from cutlayer.cuts.parts.stretch import stretch
from cutlayer.data.task import Task
from cutlayer.plan import assemble
from cutlayer.run import Run
from cutlayer.training import train_plan
from tests.helpers.layered import WIDTH, make_task, plan_of, reference, weights_of
from tests.helpers.layered import small_keys as small_keys


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
    for epoch in range(10 if parties == 3 else 25):  # 40 or 100 steps
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
        kept.append(session.label_party.cut._memory.find("weights p1"))
    assert losses[0] == losses[1] and np.array_equal(*kept)


@pytest.mark.parametrize("parties", [1, 2])
def test_a_label_party_without_columns_gets_the_layers_sum(parties):
    task, plan = make_task(parties, own=False), plan_of()
    session = assemble(task, plan, lambda message: None)
    got = session.predict(task.test)
    other = reference(task, plan, {name: weights_of(session, name) for name in task.features})
    torch.testing.assert_close(got, other.predict(task.test), atol=5e-4, rtol=0)
    session.train_epoch(0, task.train)


def test_noise_accumulates_step_by_step():
    task = make_task()
    session = assemble(task, plan_of(), lambda message: None)
    session.predict(task.test)
    start, first = session.parties["p1"].cut._noise().copy(), session.step
    for epoch in range(2):
        session.train_epoch(epoch, task.train)
    end, seed = session.parties["p1"].cut._end, session.parties["p1"].setting.private_seed
    draws = [stretch(seed, "noise", step, (WIDTH, WIDTH), 39) for step in range(first, session.step)]
    steps = [end.terms.step(draw, 8) for draw in draws]
    expected = (start + sum(steps)) & (2**40 - 1)
    assert np.array_equal(session.parties["p1"].cut._memory.find("noise"), expected)
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
