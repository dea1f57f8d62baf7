from itertools import pairwise
from math import exp

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import cutlayer as cl
from cutlayer import training
from cutlayer.defence import Course, Local, Place, Role, Setting, Subject
from cutlayer.defences import ConfusionalAutoencoder, LabelDP, MutualInformation, Passport
from cutlayer.defences.label_dp import Stages, noisy_frequencies, randomised_response, rr_with_prior
from cutlayer.errors import ConfigError
from cutlayer.plan import Plan
from cutlayer.spec import parse
from cutlayer.training import train_plan
from tests.helpers.toy import rng


def setting(classes=3, role=Role.LABEL_PARTY, seed=0):
    return Setting(party="bank", role=role, subject=Subject.LABELS, classes=classes, rng=rng(seed), shared_seed=0)


def shares(answers, classes):
    return (torch.bincount(answers, minlength=classes) / len(answers)).tolist()


def exact(label, prior, epsilon):
    """The paper's RRWithPrior, one label, as probabilities."""
    order = sorted(range(len(prior)), key=lambda c: -prior[c])
    keep = [exp(epsilon) / (exp(epsilon) + k - 1) for k in range(1, len(prior) + 1)]
    chance = [keep[k - 1] * sum(prior[c] for c in order[:k]) for k in range(1, len(prior) + 1)]
    k = max(range(len(prior)), key=lambda i: chance[i]) + 1
    top = order[:k]
    if label not in top:
        return [1 / k if c in top else 0.0 for c in range(len(prior))]
    other = (1 - keep[k - 1]) / (k - 1) if k > 1 else 0.0
    return [keep[k - 1] if c == label else (other if c in top else 0.0) for c in range(len(prior))]


def test_randomised_response_keeps_at_the_papers_rate():
    epsilon = 1.0
    answers = randomised_response(torch.full((200_000,), 2), 4, epsilon, rng())
    keep = exp(1) / (exp(1) + 3)  # 0.4754
    assert shares(answers, 4) == pytest.approx([(1 - keep) / 3] * 2 + [keep, (1 - keep) / 3], abs=0.004)


def test_two_classes_at_epsilon_one_keep_73_percent():
    labels = torch.randint(2, (200_000,), generator=rng(1))
    drawn = LabelDP().labels(labels, setting(2))
    assert (drawn == labels).double().mean().item() == pytest.approx(0.7311, abs=0.004)


def test_k_star_by_hand():
    """eps = ln 3: k=1 scores 0.6, k=2 scores 3/4 * 0.95 = 0.7125, k=3 scores 3/5: so k* = 2."""
    epsilon, prior = 1.0986123, torch.tensor([[0.05, 0.6, 0.35]])
    labels = torch.tensor([0, 1, 2]).repeat_interleave(100_000)
    answers = rr_with_prior(labels, prior, epsilon, rng()).view(3, -1)
    assert shares(answers[0], 3) == pytest.approx([0, 0.5, 0.5], abs=0.005)  # outside: even over the two
    assert shares(answers[1], 3) == pytest.approx([0, 0.75, 0.25], abs=0.005)
    assert shares(answers[2], 3) == pytest.approx([0, 0.25, 0.75], abs=0.005)


def test_a_sure_prior_answers_for_everyone():
    answers = rr_with_prior(torch.tensor([0, 1, 2, 1]), torch.tensor([[0.0, 1.0, 0.0]]), 0.5, rng())
    assert answers.tolist() == [1, 1, 1, 1]


def test_every_row_may_have_its_own_prior():
    priors = torch.eye(4)[torch.tensor([3, 0, 2, 2])]
    assert rr_with_prior(torch.tensor([0, 1, 2, 3]), priors, 0.5, rng()).tolist() == [3, 0, 2, 2]


def test_an_even_prior_is_plain_randomised_response():
    labels = torch.randint(5, (1000,), generator=rng(1))
    even = rr_with_prior(labels, torch.full((1, 5), 0.2), 1.0, rng())
    assert torch.equal(even, randomised_response(labels, 5, 1.0, rng()))


@settings(max_examples=15, deadline=None)
@given(st.lists(st.integers(1, 20), min_size=2, max_size=5), st.floats(0.2, 4))
def test_answers_follow_the_formula_and_no_two_labels_differ_by_more_than_epsilon(weights, epsilon):
    prior = [w / sum(weights) + 1e-4 * i for i, w in enumerate(weights)]  # no ties
    classes, count = len(prior), 40_000
    labels = torch.arange(classes).repeat_interleave(count)
    answers = rr_with_prior(labels, torch.tensor([prior], dtype=torch.float64), epsilon, rng()).view(classes, -1)
    table = [exact(label, prior, epsilon) for label in range(classes)]
    for label in range(classes):
        assert shares(answers[label], classes) == pytest.approx(table[label], abs=0.015)
    for column in zip(*table, strict=True):
        assert max(column) <= exp(epsilon) * min(column) + 1e-12


def test_without_a_prior_a_tenth_of_epsilon_buys_noisy_frequencies():
    labels = torch.cat([torch.zeros(9000), torch.ones(900), torch.full((100,), 2)]).long()
    frequencies = noisy_frequencies(labels, 3, 0.1, rng())
    assert frequencies.tolist() == pytest.approx([0.9, 0.09, 0.01], abs=0.02)
    assert float(frequencies.sum()) == pytest.approx(1) and frequencies.min() >= 0
    drawn = LabelDP(epsilon=1.0, mode="rr-with-prior").labels(labels, setting())
    same = rng()
    expected = rr_with_prior(labels, noisy_frequencies(labels, 3, 0.1, same)[None], 0.9, same)
    assert torch.equal(drawn, expected)


def test_the_noise_on_counts_is_laplace_of_scale_two_over_epsilon():
    labels = torch.zeros(5_000, dtype=torch.int64)
    labels[::2] = 1
    draws = torch.stack([noisy_frequencies(labels, 2, 1.0, rng(s)) for s in range(3000)]) * len(labels)
    noise = draws[:, 0] - draws[:, 1]  # the difference of two Laplace: variance 2 * 2 * 2^2 = 16
    assert noise.mean().item() == pytest.approx(0, abs=0.25) and noise.var().item() == pytest.approx(16, rel=0.15)


def test_a_given_prior_uses_all_of_epsilon():
    labels = torch.randint(3, (500,), generator=rng(1))
    drawn = LabelDP(epsilon=2.0, mode="rr-with-prior", prior=(5, 3, 2)).labels(labels, setting())
    assert torch.equal(drawn, rr_with_prior(labels, torch.tensor([[5.0, 3.0, 2.0]]), 2.0, rng()))


def test_only_the_label_party_draws():
    labels, here = torch.tensor([0, 1, 2]), setting(role=Role.FEATURE_PARTY)
    before = here.rng.get_state()
    assert LabelDP().labels(labels, here) is labels and torch.equal(here.rng.get_state(), before)


def test_large_epsilon_keeps_every_label():
    labels = torch.randint(3, (1000,), generator=rng(1))
    for mode in ("rr", "rr-with-prior"):
        assert torch.equal(LabelDP(epsilon=1e6, mode=mode).labels(labels, setting()), labels)


def test_what_it_refuses():
    with pytest.raises(ConfigError, match="regression"):
        LabelDP().labels(torch.rand(3), setting(classes=0))
    with pytest.raises(ConfigError, match="class numbers"):
        LabelDP().labels(torch.rand(3, 3), setting())
    with pytest.raises(ConfigError, match="over 3 classes"):
        LabelDP(mode="rr-with-prior", prior=(0.5, 0.5)).labels(torch.tensor([0]), setting())
    for wrong in (
        {"epsilon": 0},
        {"mode": "lp"},
        {"prior": (1.0,)},
        {"mode": "rr-with-prior", "prior": (0.0, 0.0)},
        {"stages": 0},
        {"stages": 2, "mode": "rr-with-prior"},
        {"stages": 2, "first": 0},
        {"stages": 2, "share": 0.0},
        {"stages": 2, "share": 1.0},
        {"stages": 2, "temperature": 0.0},
    ):
        with pytest.raises(ConfigError):
            LabelDP(**wrong)


def test_spelling():
    import cutlayer.defences as package
    from cutlayer.defence import Defence

    for text in (
        "label-dp:epsilon=2.0,mode=rr-with-prior,prior=0.5-0.3-0.2",
        "label-dp:stages=3,first=5,share=0.8,temperature=0.6",
    ):
        assert parse(text, package, Defence, "defence").describe() == text


def staged(defence, rows, classes=3):
    """A top in stages, as the label party makes it."""
    where = Setting("bank", Role.LABEL_PARTY, Subject.TOP, classes, rng(4), 0, rows=rows)
    return defence.model(nn.Linear(2, classes), where)


def visit(defence, top, labels, outputs, rows, seed=0):
    here = Local(Place.LABELS, rng(seed), True, rows, outputs=outputs[rows], top=top)
    return defence.batch(labels[rows], here)


def test_shares_of_stages():
    stages = staged(LabelDP(stages=3, share=0.5), 40_000).stages
    assert shares(stages, 3) == pytest.approx([0.5, 0.25, 0.25], abs=0.01)
    assert shares(staged(LabelDP(stages=2, share=0.8), 40_000).stages, 2) == pytest.approx([0.8, 0.2], abs=0.01)


def test_only_the_top_is_wrapped_and_only_in_stages():
    model, top = nn.Linear(2, 3), Setting("bank", Role.LABEL_PARTY, Subject.TOP, 3, rng(), 0, rows=5)
    bottom = Setting("shop", Role.FEATURE_PARTY, Subject.BOTTOM, 3, rng(), 0, rows=5)
    assert LabelDP().model(model, top) is model and LabelDP(stages=2).model(model, bottom) is model
    assert isinstance(LabelDP(stages=2).model(model, top), Stages)
    labels = torch.arange(3)
    assert LabelDP().batch(labels, Local(Place.LABELS, rng(), True, labels, outputs=torch.zeros(3, 3))) is labels
    assert LabelDP(stages=2).labels(labels, setting()) is labels  # `relabel` answers


def test_answers_stage_by_stage_by_replay():
    """Every number follows from the generators: RR at the first visit, RRWithPrior after `first` visits a stage."""
    defence, count = LabelDP(epsilon=1.0, stages=3, first=2, share=0.4, temperature=0.5), 600
    top, rows = staged(defence, count), torch.arange(count)
    labels = torch.randint(3, (count,), generator=rng(1))
    logits = [torch.randn(count, 3, generator=rng(10 + v)) for v in range(6)]
    one, two, three = (top.stages == s for s in range(3))
    for v in range(6):
        before = logits[v].clone()
        found = visit(defence, top, labels, logits[v], rows, seed=v)
        assert torch.equal(logits[v], before)
        if v == 0:
            expected = randomised_response(labels[one], 3, 1.0, rng(0))
            assert torch.equal(top.answers[one], expected)
        if v == 2:
            expected = rr_with_prior(labels[two], (logits[1][two] / 0.5).softmax(dim=1), 1.0, rng(2))
            assert torch.equal(top.answers[two], expected)
        if v == 4:
            expected = rr_with_prior(labels[three], (logits[3][three] / 0.5).softmax(dim=1), 1.0, rng(4))
            assert torch.equal(top.answers[three], expected)
        out = torch.stack([torch.zeros(count, dtype=torch.bool), two & (v < 2), three & (v < 4)]).any(dim=0)
        if v < 4:
            assert found.shape == (count, 3) and not found[out].any() and not (top.answers[out] + 1).any()
            assert torch.equal(found[~out].argmax(dim=1), top.answers[~out]) and (found[~out].sum(dim=1) == 1).all()
        else:
            assert torch.equal(found, top.answers)
    assert (top.visits == 6).all()


def test_a_waiting_row_gives_nothing_away():
    """Whatever the labels of rows that wait, the same comes out, and the same numbers are drawn."""
    defence, rows = LabelDP(stages=2), torch.arange(50)
    labels, outputs, found = torch.arange(50) % 3, torch.randn(50, 3, generator=rng(1)), []
    for other in (0, 1):
        top = staged(defence, 50)
        here = Local(Place.LABELS, rng(7), True, rows, outputs=outputs, top=top)
        changed = torch.where(top.stages == 1, (labels + other) % 3, labels)
        found.append((defence.batch(changed, here), here.rng.get_state()))
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))


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
        if local.place is Place.LABELS:
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
    one, two = (run.session.label_party.top.answers for run in (whole, resumed))
    assert torch.equal(one, two) and (one[task.train] >= 0).all()
    again = cl.Run.open(tmp_path / "cut", task, plan)
    assert torch.equal(again.session.label_party.top.answers, one)


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
