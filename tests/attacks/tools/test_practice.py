"""Records of an attacker's own past: their numbers by hand, their order, and what a rehearsal may know."""

from dataclasses import replace

import pytest
import torch

import cutlayer as cl
from cutlayer.attacks.tools.practice import Reader, Records, records, relive
from cutlayer.auditing.attacking import attack_run
from cutlayer.auditing.rehearsal import shadow_of
from cutlayer.auditing.secret import secret_of
from cutlayer.cuts.concat import Concat
from cutlayer.errors import ConfigError, Inapplicable
from cutlayer.judge import grant
from cutlayer.message import Kind
from cutlayer.recipe import Optimiser, Recipe
from cutlayer.rng import Stream
from cutlayer.transcript import Keep, Transcript
from cutlayer.view import Manifest, Own, Start, view_of
from tests.helpers.small_task import bottom, make_task, top
from tests.helpers.toy import FEATURE, ROSTER, record
from tests.test_view import shows


@pytest.fixture(scope="module")
def run():
    recipe = cl.Recipe(epochs=3, batch_size=32)
    return cl.train(make_task(3, "p0"), bottoms=bottom, top=top, width=6, recipe=recipe, keep="all")


def two_rows(batches=1):
    """One weight and one bias, two rows (2 and 3), gradients 0.5 and -1, SGD at 0.1 without momentum."""
    layer = torch.nn.Linear(1, 1)
    with torch.no_grad():
        layer.weight.fill_(4.0)
        layer.bias.fill_(1.0)
    features, rows = torch.tensor([[2.0], [3.0]]), torch.tensor([0, 1])
    transcript = Transcript(Keep("all"))
    for step in range(batches):
        record(transcript, Kind.GRADIENT, FEATURE, rows, torch.tensor([[0.5], [-1.0]]), step)
    recipe = Recipe(batch_size=2, optimiser=Optimiser.SGD, momentum=0.0, lr=0.1)
    manifest = Manifest("toy", ROSTER, 2, rows, rows[:0], recipe, Concat())
    own = Own(features, None, start=lambda: Start(layer, features, Stream(0, "own")))
    return view_of(transcript, frozenset({FEATURE}), manifest, {FEATURE: own})


def test_a_record_by_hand():
    """b = 4x + 1; dW = 0.5*2 - 1*3 = -2, db = -0.5; so W' = 4.2, bias' = 1.05 and b' = 9.45 and 13.65."""
    found = records([two_rows()], "all")
    expected = torch.tensor(
        [
            # 2 x gradient, b, b', W, bias, W', bias', x
            [1.0, 9.0, 9.45, 4.0, 1.0, 4.2, 1.05, 2.0],
            [-2.0, 13.0, 13.65, 4.0, 1.0, 4.2, 1.05, 3.0],
        ]
    )
    torch.testing.assert_close(found.take(torch.arange(2)), expected)
    assert found.rows.tolist() == [0, 1] and found.steps.tolist() == [0, 0]


@pytest.mark.parametrize(("parameters", "numbers"), [("difference", [0.2, 0.05]), ("none", [])])
def test_ablations(parameters, numbers):
    found = records([two_rows()], parameters).take(torch.tensor([1]))
    torch.testing.assert_close(found, torch.tensor([[-2.0, 13.0, 13.65, *numbers, 3.0]]))


def test_weights_after_a_step_hold_no_later_batch():
    first, second = list(relive(two_rows(batches=2)))
    torch.testing.assert_close(first.updated, torch.tensor([4.2, 1.05]))
    torch.testing.assert_close(second.weights, first.updated)
    torch.testing.assert_close(second.updated, torch.tensor([4.4, 1.10]))


def test_the_relived_past_is_the_past(run):
    """Embeddings as they were sent, step by step, and at the end the trained model itself, bit for bit."""
    view = run.view("p1")
    sent = view.channel(Kind.EMBEDDING, peer="p1").messages()
    steps = list(relive(view))
    for step, message in zip(steps, sent, strict=True):
        assert torch.equal(step.before, message.payload)
    trained = torch.cat([p.flatten() for p in run.session.parties["p1"].modules["bottom"].parameters()])
    assert torch.equal(steps[-1].updated, trained.detach())


def test_the_first_epoch_alone(run):
    found = records([run.view("p1")], "none", first_only=True)
    assert sorted(found.rows.tolist()) == run.task.train.tolist()


def test_without_the_first_epoch_it_does_not_apply(run):
    late = cl.train(run.task, bottoms=bottom, top=top, width=6, recipe=run.plan.recipe, keep="last")
    with pytest.raises(Inapplicable, match="first epoch"):
        records([late.view("p1")], "none")


def test_both_ends_are_kept(run):
    ends = cl.train(run.task, bottoms=bottom, top=top, width=6, recipe=run.plan.recipe, keep="ends")
    view = ends.view("p1")
    assert set(view.channel(Kind.GRADIENT, peer="p1").entries["epoch"]) == {0, 2}
    full = records([run.view("p1")], "none", first_only=True)
    torch.testing.assert_close(records([view], "none").each, full.each)


def shadowed(run, party="p1", *, shared=False, count=30):
    return shadow_of(run, frozenset({party}), count, shared, seed=0)


def test_shadow_rows_are_not_trained_on_and_have_every_class(run):
    shadow = shadowed(run)
    assert not torch.isin(shadow.rows, run.task.train).any() and len(shadow.rows) == 30
    assert torch.isin(shadow.rows, run.task.test).all()
    assert set(shadow.labels.tolist()) == set(range(len(run.task.classes)))


def test_nothing_in_shadow_data_leads_to_the_attacked_rows(run):
    asks = cl.Asks(shadow=30, start=True)
    view = run.view("p1")
    told = replace(view, hints=grant(asks, view, secret_of(run), 0), victim="p0")
    assert not shows(told, run.task.labels) and not shows(told, run.task.labels[run.task.train])
    for other in ("p0", "p2"):
        assert not shows(told, run.task.features[other].values)
        assert not shows(told, run.task.features[other].values[run.task.train])


@pytest.mark.parametrize("shared", [False, True])
def test_who_starts_as_in_the_run(run, shared):
    """The attacker's own first embedding of a row is the run's; the gradient is only with shared weights."""
    view = shadowed(run, shared=shared).rehearse(5, 1, True)
    first = next(relive(view))
    own, theirs = (seen.own["p1"].start().bottom.state_dict() for seen in (run.view("p1"), view))
    assert all(torch.equal(own[key], theirs[key]) for key in own)
    tops = [shadowed(run, shared=True).rehearse(seed, 1, True) for seed in (5, 6)]
    again = next(relive(shadowed(run, shared=shared).rehearse(5, 1, True)))
    assert torch.equal(again.gradient, first.gradient)  # repeatable
    same = torch.allclose(first.gradient, next(relive(tops[0])).gradient)
    assert same is shared
    assert not torch.equal(first.rows, next(relive(tops[1])).rows)  # rehearsals differ in order


def test_a_rehearsed_past_is_relived_exactly(run):
    view = shadowed(run).rehearse(5, 2, True)
    for step, message in zip(relive(view), view.channel(Kind.EMBEDDING, peer="p1").messages(), strict=True):
        assert torch.equal(step.before, message.payload)


def test_modules_that_were_given_are_drawn_anew(run):
    """A plan may hold modules: what the attacker does not know must not slip in with them."""
    given = {name: bottom(run.task.features[name], 6) for name in run.task.features}
    made = cl.train(run.task, bottoms=given, top=top, width=6, recipe=run.plan.recipe, epochs=1, keep="all")
    own, shared = (next(relive(shadowed(made, shared=s).rehearse(5, 1, True))).gradient for s in (False, True))
    assert not torch.allclose(own, shared)


def test_reader_learns_what_records_say():
    """Labels are the sign of the first number; shared numbers and columns are noise."""
    with Stream(0, "reader").scope():
        each, rows = torch.randn(400, 5), torch.arange(400)
        truth = (each[:, 0] > 0).long()
        one = Records(rows, rows // 20, each, torch.randn(20, 3), columns=2)
        reader = Reader((64,), one, classes=2).learn(truth, rounds=50, rate=1e-3)
    assert (reader.read(one) == truth).double().mean() > 0.95
    whole = one.take(torch.tensor([7]))[0]
    torch.testing.assert_close(whole, torch.cat([each[7, :3], one.shared[0], each[7, 3:]]))


BAD = {
    "lacks a class": (lambda t: replace(t, labels=torch.zeros_like(t.labels)), "every class, got none of"),
    "other parties": (
        lambda t: replace(t, features={n: f for n, f in t.features.items() if n != "p2"}),
        "shadow data of p0, p1, p2, got p0, p1",
    ),
    "trained on": (lambda t: t, "not trained on, got"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_shadow_data_is_refused(run, name):
    change, message = BAD[name]
    with pytest.raises(ConfigError, match=message):
        shadow_of(run, frozenset({"p1"}), 10, False, 0, given=change(run.task))


def test_columns_that_do_not_match_are_named(run):
    features = run.task.features["p1"]
    narrow = replace(features, values=features.values[:, :-1])
    odd = replace(run.task, features={**run.task.features, "p1": narrow})
    with pytest.raises(ConfigError, match="columns of p1 as in the task, got another number"):
        shadow_of(run, frozenset({"p1"}), 10, False, 0, given=odd)


def test_given_shadow_data_is_used(run):
    features = {n: replace(f, values=f.values + 1) for n, f in run.task.features.items()}
    other = replace(run.task, features=features)
    asked = cl.attacks.Reconstruction(runs=1, rounds=1)
    (finding,) = attack_run(run, [asked], by="p1", shadow=other)
    assert finding.status == "done" and finding.granted.startswith(f"{len(other.labels)} complete rows")
