"""What a rehearsal on shadow data may know, and which shadow data is refused."""

from dataclasses import replace

import pytest
import torch

import cutlayer as cl
from cutlayer.attacks.tools.replay import replay
from cutlayer.auditing.attacking import attack_run
from cutlayer.auditing.rehearsal import shadow_of
from cutlayer.auditing.secret import secret_of
from cutlayer.errors import ConfigError
from cutlayer.judge import grant
from cutlayer.message import Kind
from tests.helpers.reachable import shows
from tests.helpers.small_task import bottom, make_task, top


@pytest.fixture(scope="module")
def run():
    recipe = cl.Recipe(epochs=3, batch_size=32)
    return cl.train(make_task(3, "p0"), bottoms=bottom, top=top, width=6, recipe=recipe, keep="all")


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
    informed = replace(view, hints=grant(asks, view, secret_of(run), 0), victim="p0")
    assert not shows(informed, run.task.labels) and not shows(informed, run.task.labels[run.task.train])
    for other in ("p0", "p2"):
        assert not shows(informed, run.task.features[other].values)
        assert not shows(informed, run.task.features[other].values[run.task.train])


@pytest.mark.parametrize("shared", [False, True])
def test_who_starts_as_in_the_run(run, shared):
    """The attacker's own first embedding of a row is the run's; the gradient is only with shared weights."""
    view = shadowed(run, shared=shared).rehearse(5, 1, True)
    first = next(replay(view))
    own, theirs = (seen.own["p1"].start().bottom.state_dict() for seen in (run.view("p1"), view))
    assert all(torch.equal(own[key], theirs[key]) for key in own)
    tops = [shadowed(run, shared=True).rehearse(seed, 1, True) for seed in (5, 6)]
    again = next(replay(shadowed(run, shared=shared).rehearse(5, 1, True)))
    assert torch.equal(again.gradient, first.gradient)  # repeatable
    same = torch.allclose(first.gradient, next(replay(tops[0])).gradient)
    assert same is shared
    assert not torch.equal(first.rows, next(replay(tops[1])).rows)  # rehearsals differ in order


def test_a_rehearsed_past_is_replayed_exactly(run):
    view = shadowed(run).rehearse(5, 2, True)
    for step, message in zip(replay(view), view.channel(Kind.EMBEDDING, peer="p1").messages(), strict=True):
        assert torch.equal(step.before, message.payload)


def test_modules_that_were_given_are_drawn_anew(run):
    """A plan may hold modules: what the attacker does not know must not slip in with them."""
    given = {name: bottom(run.task.features[name], 6) for name in run.task.features}
    other = cl.train(run.task, bottoms=given, top=top, width=6, recipe=run.plan.recipe, epochs=1, keep="all")
    own, shared = (next(replay(shadowed(other, shared=s).rehearse(5, 1, True))).gradient for s in (False, True))
    assert not torch.allclose(own, shared)


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
