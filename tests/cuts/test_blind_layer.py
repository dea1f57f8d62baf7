"""The blind layer against a plaintext network whose first layer is one nn.Linear per party, trained by SGD."""

import numpy as np
import pytest
import torch
from torch import nn

import cutlayer as cl
import cutlayer.cuts.blind_layer as blind_layer
from cutlayer import training
from cutlayer.auditing.attacking import attack_run
from cutlayer.cuts.blind_layer import BlindLayer
from cutlayer.cuts.parts.blind_ends import OWN
from cutlayer.data.task import Task
from cutlayer.defence import Role
from cutlayer.errors import ConfigError
from cutlayer.message import Kind
from cutlayer.models import named
from cutlayer.plan import assemble
from cutlayer.run import Run
from cutlayer.settings import read_attacks
from cutlayer.training import train_plan
from tests.helpers.blind import COLUMNS, LR, ROWS, WIDTH, make_task, plan_of, recorded, reference, top, weights_of
from tests.helpers.layered import small_keys as small_keys
from tests.helpers.random_task import random_task

STEPS, BATCH = 200, 8


def no_blur(monkeypatch):
    monkeypatch.setattr(blind_layer, "blur", lambda seed, batch, width: np.zeros((len(batch.rows), width), np.int64))


def compare(parties, own, momentum, weights_within, outputs_within):
    task, plan = make_task(parties, own=own), plan_of(BlindLayer(width=WIDTH, lr=LR, momentum=momentum))
    session = assemble(task, plan, lambda message: None)
    session.predict(task.test)
    start = weights_of(session, task)
    other = reference(task, plan, start)
    for epoch in range(STEPS * BATCH // ROWS):
        loss, expected = (each.train_epoch(epoch, task.train) for each in (session, other))
        assert loss == pytest.approx(expected, abs=outputs_within)
    torch.testing.assert_close(session.predict(task.test), other.predict(task.test), atol=outputs_within, rtol=0)
    for name, weights in weights_of(session, task).items():
        assert (weights - start[name]).abs().max() > 0.1
        torch.testing.assert_close(weights, other.parties[name].bottom.weight.T, atol=weights_within, rtol=0)


@pytest.mark.parametrize(("parties", "own", "momentum"), [(2, True, 0.0), (3, True, 0.9), (3, False, 0.0)])
def test_without_the_blur_200_steps_equal_plaintext_sgd_up_to_the_rounding_of_steps(
    parties, own, momentum, monkeypatch
):
    """A row's step is off by a uniform 2^-22 at most, of standard deviation 2^-23.8 or more, up to 2^-23: over all
    rows and steps sqrt(200 * 8) 2^-23, ten times as much under momentum. Six of these, for columns of size 1."""
    no_blur(monkeypatch)
    within = 6 * (STEPS * BATCH) ** 0.5 * 2**-23 / (1 - momentum)
    compare(parties, own, momentum, within, 10 * within)


@pytest.mark.parametrize(("parties", "own", "momentum"), [(2, True, 0.9), (2, False, 0.0)])
def test_200_steps_equal_plaintext_sgd_up_to_the_blur(parties, own, momentum):
    """A sum is off by up to 2^-11, so the mean gradient of 8 rows by about 2^-11 / sqrt(8), as the loss bends by less
    than 1; over all steps lr times sqrt(200) of these, ten times as much under momentum. Six of these."""
    within = 6 * LR * (STEPS / BATCH) ** 0.5 * 2**-11 / (1 - momentum)
    compare(parties, own, momentum, within, 10 * within)


def test_both_backends_give_the_same_bits():
    task, losses, kept = make_task(), [], []
    for scheme in ("bfv", "paillier"):
        session = assemble(task, plan_of(BlindLayer(width=WIDTH, scheme=scheme)), lambda message: None)
        losses.append(session.train_epoch(0, task.train))
        kept.append(weights_of(session, task))
    assert losses[0] == losses[1]
    assert all(torch.equal(kept[0][name], kept[1][name]) for name in task.features)


class Stop(Exception):
    pass


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_an_interrupted_run_resumes_to_the_same_weights_under_fresh_masks(tmp_path, monkeypatch, momentum):
    monkeypatch.setattr(training, "CHECKPOINT_SECONDS", 0.0)
    task, plan = make_task(), plan_of(BlindLayer(width=WIDTH, lr=LR, momentum=momentum), epochs=3)

    def stop(done, steps, text):
        if done == 6:
            raise Stop

    whole = train_plan(task, plan, out=tmp_path / "whole")
    with pytest.raises(Stop):
        train_plan(task, plan, out=tmp_path / "cut", progress=stop)
    resumed = train_plan(task, plan, out=tmp_path / "cut", resume=True)
    for name, weights in weights_of(resumed.session, task).items():
        torch.testing.assert_close(weights, weights_of(whole.session, task)[name], atol=1e-7, rtol=0)
    assert [r["loss"] for r in resumed.history] == pytest.approx([r["loss"] for r in whole.history], abs=1e-6)
    halves = [run.session.parties["p1"].cut._memory.find("p1") for run in (whole, resumed)]
    assert not (halves[0] == halves[1]).any()
    again = Run.open(tmp_path / "whole", task, plan)
    torch.testing.assert_close(again.predict(task.test), whole.predict(task.test), atol=5e-3, rtol=0)


def test_a_feature_party_gets_nothing_but_sizes_keys_and_ciphertexts():
    task, _, transcript = recorded(make_task(3), epochs=2)
    for name in task.feature_parties:
        kinds = {kind for _, to, kind, _ in transcript.channels if to == name}
        assert kinds == {Kind.SETUP, Kind.CIPHER}
    sums = transcript.channels["p0", "p0", Kind.SUM, cl.message.Phase.TRAIN].read(epoch=1)
    assert sums[1].shape == (ROWS, WIDTH)


def label_attacks(task, epochs, lr=LR, labels=None):
    """Findings of all label attacks by a feature party, and guesses; `labels` trains on others than it hunts."""
    trained = task if labels is None else Task(**{**vars(task), "labels": labels})
    recipe, guesses = cl.Recipe(epochs=epochs, batch_size=BATCH, lr=LR), {}
    run = cl.train(
        trained, cut=BlindLayer(width=WIDTH, lr=lr), bottoms=named.bottom("none"), top=top, recipe=recipe, keep="all"
    )
    attacks = [a for a in read_attacks([]) if a.target is cl.Target.LABELS and a.by is Role.FEATURE_PARTY]
    run.task = task
    findings = attack_run(run, attacks, on_guess=lambda attack, guess, _: guesses.update({attack.name: guess.values}))
    assert len(findings) == len(attacks) > 5
    return run, findings, guesses


def test_label_attacks_of_a_feature_party_find_what_its_columns_say_and_no_more():
    """They need a gradient and do not apply. Only model-completion does, which has columns and is told 40 labels. It
    guesses the same whatever the run did: longer, at another rate, or on labels that say the opposite."""
    task = random_task("label attacks", 200, 2, 4, 1.0, own=True)
    run, findings, guesses = label_attacks(task, 5)
    assert run.metrics["accuracy"] > 0.9  # the run learns what the guess does not
    assert list(guesses) == ["model-completion"]
    for finding in findings:
        if finding.attack == "model-completion":
            assert finding.low <= finding.baseline
        else:
            assert finding.reason in ("no gradient crosses", "needs shared target codes")
    for other in ({"epochs": 1}, {"epochs": 1, "lr": 1.0}, {"epochs": 5, "labels": 1 - task.labels}):
        _, _, again = label_attacks(task, **other)
        assert torch.equal(again["model-completion"], guesses["model-completion"])


def test_every_attack_answers_a_run_under_the_blind_layer():
    """A finding or a reason, never a traceback."""
    task, recipe = random_task("every attack", 200, 3, 4, 1.0, own=True), cl.Recipe(epochs=1, batch_size=16)
    run = cl.train(task, bottoms=named.bottom("none"), top=top, cut=BlindLayer(width=WIDTH), recipe=recipe, keep="last")
    for finding in attack_run(run, read_attacks([])):
        assert finding.status == "done" or finding.reason


def test_the_label_party_has_no_part_in_the_first_weights():
    """If it drew half of them, it would read few columns off a wide layer: X = Z B^+, B being its half."""
    task = make_task(2, own=False)
    session = assemble(task, plan_of(BlindLayer(width=64)), lambda message: None)
    session.predict(task.test)
    kept = session.label_party.cut._memory
    assert all(not kept.find(name).any() for name in task.features)
    rng = np.random.default_rng(0)
    columns, drawn = task.features["p0"].values.numpy(), rng.uniform(-0.5, 0.5, (2, COLUMNS, 64))
    sums = columns @ (drawn[0] + drawn[1])  # the weak variant
    error = np.linalg.norm(sums @ np.linalg.pinv(drawn[0]) - columns) / np.linalg.norm(columns)
    assert error < 0.35


def test_a_bottom_with_weights_is_refused():
    with pytest.raises(ConfigError, match="use --bottom none"):
        assemble(make_task(), plan_of(bottoms=named.bottom("linear")), lambda message: None)
    with pytest.raises(ConfigError, match="flat rows"):
        BlindLayer().shape([(3, 4)])
    with pytest.raises(ConfigError, match="momentum=1"):
        BlindLayer(momentum=1)


def test_the_own_half_of_the_label_party_stays_and_the_other_is_trained():
    task, session, _ = recorded(epochs=1)
    held, own = (session.parties[name].cut._memory.find(OWN) for name in ("p1", "p0"))
    start = assemble(task, plan_of(), lambda message: None)
    start.predict(task.test)
    assert np.array_equal(held, start.parties["p1"].cut._memory.find(OWN)) and own.any()


def test_columns_of_the_label_party_that_change_are_refused():
    class Jitter(cl.Defence):
        def batch(self, values, local):
            return values + 0.1 * local.rng.normal(values.shape).float() if values.ndim == 2 else values

    task = make_task()
    session = assemble(task, plan_of(defences=(Jitter(),)), lambda message: None)
    session.train_epoch(0, task.train)
    with pytest.raises(cl.errors.DataError, match="stay as they are"):
        session.train_epoch(1, task.train)


def test_the_top_may_be_any_module():
    task = make_task(1, own=False)
    recipe = cl.Recipe(epochs=30, batch_size=BATCH)
    run = cl.train(
        task, bottoms=named.bottom("none"), top=nn.Linear(WIDTH, 2), cut=BlindLayer(width=WIDTH), recipe=recipe
    )
    assert run.metrics["accuracy"] > 0.8
