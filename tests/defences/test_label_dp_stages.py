"""LabelDP in stages: who answers when, with which prior, and that nothing is answered twice."""

from itertools import pairwise
from math import exp

import pytest
import torch
from torch import nn

import cutlayer as cl
from cutlayer import training
from cutlayer.defence import Course, Local, Place, Role, Setting, Subject
from cutlayer.defences import ConfusionalAutoencoder, LabelDP, MutualInformation, Passport
from cutlayer.defences.label_dp import Stages, randomised_response, rr_with_prior
from cutlayer.errors import ConfigError
from cutlayer.plan import Plan
from cutlayer.training import train_plan
from tests.helpers.class_shares import class_shares
from tests.helpers.toy import draws, rng


def staged(defence, rows, classes=3):
    """A top in stages, as the label party makes it."""
    where = Setting("bank", Role.LABEL_PARTY, Subject.TOP, classes, draws(4), 0, rows=rows)
    return defence.model(nn.Linear(2, classes), where)


def visit(defence, top, labels, outputs, rows, seed=0):
    here = Local(Place.LABELS, draws(seed), True, rows, outputs=outputs[rows], top=top)
    return defence.batch(labels[rows], here)


def test_shares_of_stages():
    stages = staged(LabelDP(stages=3, share=0.5), 40_000).stages
    assert class_shares(stages, 3) == pytest.approx([0.5, 0.25, 0.25], abs=0.01)
    assert class_shares(staged(LabelDP(stages=2, share=0.8), 40_000).stages, 2) == pytest.approx([0.8, 0.2], abs=0.01)


def test_only_the_top_is_wrapped_and_only_in_stages():
    model, top = nn.Linear(2, 3), Setting("bank", Role.LABEL_PARTY, Subject.TOP, 3, draws(), 0, rows=5)
    bottom = Setting("shop", Role.FEATURE_PARTY, Subject.BOTTOM, 3, draws(), 0, rows=5)
    assert LabelDP().model(model, top) is model and LabelDP(stages=2).model(model, bottom) is model
    assert isinstance(LabelDP(stages=2).model(model, top), Stages)
    labels = torch.arange(3)
    assert LabelDP().batch(labels, Local(Place.LABELS, draws(), True, labels, outputs=torch.zeros(3, 3))) is labels
    assert LabelDP(stages=2).labels(labels, top) is labels  # `batch` answers


def test_answers_stage_by_stage_by_replay():
    """Every number follows from the generators: RR at the first visit, RRWithPrior after `first` visits a stage."""
    defence, count = LabelDP(epsilon=1.0, stages=3, first=2, share=0.4, temperature=0.5), 600
    top, rows = staged(defence, count), torch.arange(count)
    labels = torch.randint(3, (count,), generator=rng(1))
    logits = [torch.randn(count, 3, generator=rng(10 + v)) for v in range(6)]
    first, second, third = (top.stages == s for s in range(3))
    for v in range(6):
        before = logits[v].clone()
        output = visit(defence, top, labels, logits[v], rows, seed=v)
        assert torch.equal(logits[v], before)
        if v == 0:
            expected = randomised_response(labels[first], 3, 1.0, draws(0))
            assert torch.equal(top.answers[first], expected)
        if v == 2:
            expected = rr_with_prior(labels[second], (logits[1][second] / 0.5).softmax(dim=1), 1.0, draws(2))
            assert torch.equal(top.answers[second], expected)
        if v == 4:
            expected = rr_with_prior(labels[third], (logits[3][third] / 0.5).softmax(dim=1), 1.0, draws(4))
            assert torch.equal(top.answers[third], expected)
        out = torch.stack([torch.zeros(count, dtype=torch.bool), second & (v < 2), third & (v < 4)]).any(dim=0)
        if v < 4:
            assert output.shape == (count, 3) and not output[out].any() and not (top.answers[out] + 1).any()
            assert torch.equal(output[~out].argmax(dim=1), top.answers[~out]) and (output[~out].sum(dim=1) == 1).all()
        else:
            assert torch.equal(output, top.answers)
    assert (top.visits == 6).all()


def test_a_waiting_row_gives_nothing_away():
    """The labels of waiting rows change neither the output nor the random numbers drawn."""
    defence, rows = LabelDP(stages=2), torch.arange(50)
    labels, outputs, results = torch.arange(50) % 3, torch.randn(50, 3, generator=rng(1)), []
    for other in (0, 1):
        top = staged(defence, 50)
        here = Local(Place.LABELS, draws(7), True, rows, outputs=outputs, top=top)
        changed = torch.where(top.stages == 1, (labels + other) % 3, labels)
        results.append((defence.batch(changed, here), here.rng.state))
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


@pytest.fixture(scope="module")
def task():
    return cl.data.digits()


def gradients(run, epoch):
    rows, payload, _ = run.view("party2").channel(cl.Kind.GRADIENT, peer="party2").read(epoch)
    return rows, payload


def test_skipped_rows_get_gradients_of_exactly_zero_until_their_turn(task):
    run = cl.train(task, defences=[LabelDP(stages=2, first=2)], epochs=3, keep="all")
    stages = run.session.label_party.top.stages
    for epoch in range(3):
        rows, payload = gradients(run, epoch)
        late, moved = stages[rows] == 1, payload.abs().sum(dim=1) > 0
        assert sorted(rows.tolist()) == sorted(task.train.tolist()) and late.any()
        assert moved[~late].all() and bool(moved[late].any()) == (epoch == 2)
        assert epoch < 2 or moved[late].all()


def test_answers_never_change_and_later_ones_are_truer(task, monkeypatch):
    """Two stages keep more true labels than one at the same epsilon."""
    seen, real = [], LabelDP.batch

    def batch(self, values, local):
        values = real(self, values, local)
        if local.place is Place.LABELS and len(local.top.answers) == len(task.labels):  # not those of canaries
            seen.append(local.top.answers.clone())
        return values

    monkeypatch.setattr(LabelDP, "batch", batch)
    run = cl.train(task, defences=[LabelDP(epsilon=2.0, stages=2, first=10)], epochs=12)
    for before, after in pairwise(seen):
        assert torch.equal(before[before >= 0], after[before >= 0])
    answers, stages = run.session.label_party.top.answers, run.session.label_party.top.stages
    assert (answers[task.train] >= 0).all() and (answers[task.test] < 0).all()
    kept = [(answers == task.labels)[task.train][stages[task.train] == s].double().mean().item() for s in (0, 1)]
    assert kept[0] == pytest.approx(exp(2) / (exp(2) + 9), abs=0.05)  # 0.451, all that one stage keeps
    assert kept[1] > 0.65


def test_a_resumed_run_has_the_same_answers(task, tmp_path, monkeypatch):
    monkeypatch.setattr(training, "CHECKPOINT_SECONDS", 0.0)
    plan = Plan(defences=(LabelDP(stages=2, first=2),), recipe=cl.Recipe(epochs=4, batch_size=128))
    whole = train_plan(task, plan)

    def stop(done, total, text):
        if done == total // 2 + 3:  # among the answers of the second stage
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_plan(task, plan, out=tmp_path / "cut", progress=stop)
    resumed = train_plan(task, plan, out=tmp_path / "cut", resume=True)
    assert resumed.to_json()["models"] == whole.to_json()["models"]
    first, second = (run.session.label_party.top.answers for run in (whole, resumed))
    assert torch.equal(first, second) and (first[task.train] >= 0).all()
    again = cl.Run.open(tmp_path / "cut", task, plan)
    assert torch.equal(again.session.label_party.top.answers, first)


@pytest.mark.parametrize("other", [Passport(mean_range=2.0, variance=1.0), MutualInformation()])
@pytest.mark.parametrize("late", [False, True])
def test_beside_defences_that_look_into_the_top(task, other, late):
    chosen = [LabelDP(epsilon=4.0, stages=2, first=3), other]
    run = cl.train(task, defences=chosen[:: -1 if late else 1], epochs=4)
    held = [module for module in run.session.label_party.top.modules() if isinstance(module, Stages)]
    assert len(held) == 1 and (held[0].answers[task.train] >= 0).all()
    assert run.history[-1]["loss"] < 2.5


def test_stages_refuse_soft_labels_and_odd_tops(task):
    for chosen in ([LabelDP(stages=2), ConfusionalAutoencoder()], [ConfusionalAutoencoder(), LabelDP(stages=2)]):
        with pytest.raises(ConfigError, match="class numbers"):
            cl.train(task, defences=chosen, epochs=1)
    with pytest.raises(ConfigError, match="top of 10 outputs"):
        cl.train(task, defences=[LabelDP(stages=2)], top=lambda inputs, outputs: nn.Linear(inputs, 12), epochs=1)


def test_a_run_too_short_for_its_stages_says_so():
    course = {"rows": 100, "batch_size": 10, "feature_parties": 1, "classes": 2}
    assert "not reached" in LabelDP(stages=3, first=2).notes(Course(epochs=4, **course))[0]
    assert LabelDP(stages=3, first=2).notes(Course(epochs=5, **course)) == LabelDP().notes(Course(epochs=0, **course))
