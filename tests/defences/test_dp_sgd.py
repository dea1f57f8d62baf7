"""DP-SGD: rows are clipped and blurred by the formula, on messages and on parameters, and epsilon is counted."""

import json
import subprocess
import sys
from copy import deepcopy
from dataclasses import replace
from math import sqrt

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import cutlayer as cl
from cutlayer.attacks import ModelCompletion
from cutlayer.auditing.attacking import attack_run
from cutlayer.blocks.accountant import gaussian_epsilon, released_epsilon, renyi_epsilon
from cutlayer.checkpoint import digest
from cutlayer.defence import Course, Local, Place, Role, Setting, Subject
from cutlayer.defences import PPDL, DpSgd, LabelDP, MaxNorm
from cutlayer.draws import STEPS
from cutlayer.errors import ConfigError, Interrupted
from cutlayer.plan import Plan, assemble
from cutlayer.privacy import Guarded, Observer, Privacy
from cutlayer.recipe import Optimiser, Recipe
from cutlayer.spec import parse
from cutlayer.training import train_plan
from tests.helpers.small_task import make_task
from tests.helpers.toy import draws, rng

RECIPE = Recipe(epochs=2, batch_size=16, lr=0.05, optimiser=Optimiser.SGD, momentum=0.0)
COURSE = Course(rows=1000, batch_size=100, epochs=10, feature_parties=1, classes=2)


def bottom(features, width):
    return nn.Sequential(nn.Linear(features.values.shape[1], 6), nn.Tanh(), nn.Linear(6, width))


def normalised(features, width):
    return nn.Sequential(bottom(features, width), nn.BatchNorm1d(width, affine=False))


def plan(*defences, **changes):
    changes = {"recipe": RECIPE} | changes
    return Plan(bottoms=bottom, top=nn.Linear, width=4, defences=defences, **changes)


# On messages


@pytest.mark.parametrize("place", [Place.GRADIENT, Place.LOGITS])
def test_gradients_are_clipped_in_units_of_one_rows_loss(local, place):
    """Three rows, so the message is times 3: norms 15, 0.6 and 0 become 1, 0.6 and 0, and a third of it is sent."""
    payload = torch.tensor([[3.0, 4.0], [0.0, 0.2], [0.0, 0.0]])
    sent = DpSgd(noise=0, where=place.value).protect(payload, local(place))
    assert sent.flatten().tolist() == pytest.approx([0.2, 0.8 / 3, 0, 0.2, 0, 0])


def test_embeddings_are_clipped_as_they_are(local):
    payload = torch.tensor([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]])
    sent = DpSgd(noise=0, where="embedding", clip=2).protect(payload, local(Place.EMBEDDING, training=False))
    assert sent.flatten().tolist() == pytest.approx([1.2, 1.6, 0.3, 0.4, 0, 0])


def test_noise_by_hand(local):
    payload = torch.tensor([[0.1, 0.0], [0.0, -0.2]])
    draw = (local(seed=2).rng.discrete_normal((2, 2)) / STEPS).float()
    sent = DpSgd(noise=1.5, clip=2.0).protect(payload, local(seed=2))
    assert torch.allclose(
        sent, payload + 3.0 * draw / 2, atol=3.0 / STEPS
    )  # shorter than the clip; noise * clip, over two rows


def test_noise_has_its_spread_whatever_the_batch(local):
    for count in (10, 1000):
        payload = torch.zeros(count, 40_000 // count)
        noise = DpSgd(noise=2.0, clip=0.5).protect(payload, local()) * count
        assert noise.std().item() == pytest.approx(1.0, rel=0.02)


def test_each_place_is_left_alone_by_the_others(local):
    payload = torch.ones(3, 2)
    for where in ("gradient", "logits", "embedding", "parameters"):
        for place in Place:
            assert (DpSgd(where=where).protect(payload, local(place)) is payload) == (place.value != where)


def test_backward_takes_clipping_as_constant_and_ignores_noise(local):
    payload = torch.tensor([[3.0, 4.0], [0.3, 0.4]], requires_grad=True)
    DpSgd(where="embedding").protect(payload, local(Place.EMBEDDING)).sum().backward()
    assert payload.grad.flatten().tolist() == pytest.approx([0.2, 0.2, 1, 1])


@given(st.lists(st.floats(-(2.0**90), 2.0**90, width=32), min_size=6, max_size=6), st.floats(0.01, 100))
def test_no_row_is_longer_than_the_clip_and_shorter_ones_stay(values, clip):
    payload = torch.tensor(values).view(3, 2)
    here = Local(Place.EMBEDDING, draws(), True, torch.arange(3))
    sent = DpSgd(noise=0, where="embedding", clip=clip).protect(payload, here)
    lengths = payload.double().norm(dim=1)
    assert sent.isfinite().all() and sent.norm(dim=1).max() <= clip * 1.0001
    assert torch.equal(sent[lengths < 0.999 * clip], payload[lengths < 0.999 * clip])


# On parameters


def by_hand(party, model, inputs, gradient, noise, clip, batch_size, lr):
    """Row by row: clip over all parameters, sum, add noise in the order of parameters, divide, step."""
    parameters = list(model.parameters())
    total = [torch.zeros_like(p) for p in parameters]
    for row, out in zip(inputs, gradient * len(inputs), strict=True):
        own = torch.autograd.grad(model(row[None]), parameters, out[None])
        length = torch.cat([g.flatten() for g in own]).norm()
        for place, g in zip(total, own, strict=True):
            place += g * min(1.0, clip / float(length + 1e-6))
    own = deepcopy(party.stream.draws) if noise else None
    with torch.no_grad():
        for p, sum_ in zip(parameters, total, strict=True):
            blur = noise * clip * own.discrete_normal(p.shape) / STEPS if own else 0.0
            p -= lr * (sum_ + blur) / batch_size


@pytest.mark.parametrize(("noise", "clip"), [(0.0, 0.05), (0.7, 0.05), (0.0, 1e6)])
def test_a_step_on_a_bottom_fed_with_gradients_from_outside(noise, clip):
    task = make_task(2, "p0")
    session = assemble(task, plan(DpSgd(noise=noise, clip=clip, where="parameters")), lambda m: None)
    party = session.parties["p1"]
    model = bottom(task.features["p1"], 4)
    model.load_state_dict(party.bottom.state_dict())
    for seed in range(3):  # nothing is left over from one step to the next
        rows = torch.arange(16) + 16 * seed
        inputs, gradient = task.features["p1"].values[rows], torch.randn(16, 4, generator=rng(seed)) / 16
        by_hand(party, model, inputs, gradient, noise, clip, 16, 0.05)
        party.step([party.embed(inputs, cl.Phase.TRAIN)], [gradient])
        for mine, theirs in zip(model.parameters(), party.bottom.parameters(), strict=True):
            assert torch.allclose(mine, theirs, atol=1e-6)


def test_without_noise_and_clipping_it_is_plain_training():
    task = make_task(2, "p0")
    recipe = Recipe(epochs=2, batch_size=30)
    free, kept = (
        train_plan(task, plan(*defences, recipe=recipe))
        for defences in ([], [DpSgd(noise=0, clip=1e6, where="parameters")])
    )
    for name, model in free.models.items():
        for weight, expected in zip(model.parameters(), kept.models[name].parameters(), strict=True):
            assert torch.allclose(weight, expected, atol=1e-4), name
    assert {name: set(m.state_dict()) for name, m in free.models.items()} == {
        name: set(m.state_dict()) for name, m in kept.models.items()
    }


def test_runs_are_repeatable_and_resume_to_the_same_bits(tmp_path):
    task, defended = (
        make_task(2, "p0"),
        plan(DpSgd(noise=1.0, where="parameters"), recipe=Recipe(epochs=3, batch_size=16)),
    )
    whole = train_plan(task, defended)
    assert digest(whole.models["p1.bottom"]) == digest(train_plan(task, defended).models["p1.bottom"])
    other = train_plan(task, plan(DpSgd(noise=1.0, where="parameters"), recipe=Recipe(epochs=3, batch_size=16), seed=1))
    assert digest(whole.models["p1.bottom"]) != digest(other.models["p1.bottom"])

    def stop(done, steps, text):
        if done > 10:  # 8 batches an epoch
            raise Interrupted("enough")

    with pytest.raises(Interrupted):
        train_plan(task, defended, out=tmp_path / "run", progress=stop)
    resumed = train_plan(task, defended, out=tmp_path / "run", resume=True)
    for name, model in whole.models.items():
        assert digest(resumed.models[name]) == digest(model), name


def test_attackers_get_copies_that_work_and_compute_nothing_per_row():
    run = train_plan(make_task(2, "p0"), plan(DpSgd(noise=0.5, where="parameters")))
    own = run.view("p1").own["p1"]
    for mode in (True, False):
        inputs = torch.randn(5, 5, requires_grad=True)
        own.bottom.train(mode)(inputs).sum().backward()
        assert inputs.grad is not None and not hasattr(next(own.bottom.parameters()), "grad_sample")
    (finding,) = attack_run(run, [ModelCompletion(labels=6)])
    assert 0 <= finding.value <= 1


def test_what_parameters_refuses():
    task, private = make_task(2, "p0"), DpSgd(where="parameters")
    with pytest.raises(ConfigError, match="without batch norm"):
        assemble(task, replace(plan(private), bottoms=normalised), print)
    with pytest.raises(ConfigError, match="no look-ahead"):
        assemble(task, plan(private, lookahead=1), print)
    with pytest.raises(ConfigError, match="no clip="):
        assemble(task, plan(private, recipe=Recipe(clip=1.0)), print)


def test_opacus_is_imported_only_where_parameters_are_made_private():
    code = (
        "import sys, cutlayer as cl; d = cl.defences.DpSgd();"
        "cl.train(cl.data.digits(parties=2), defences=[d], epochs=1).to_json(); print('opacus' in sys.modules)"
    )
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert process.stdout.strip() == "False"


def test_without_opacus_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "opacus", None)
    setting = Setting("shop", Role.FEATURE_PARTY, Subject.OPTIMISER, 2, draws(), 0)
    with pytest.raises(ConfigError, match=r"pip install 'cutlayer\[dp\]'"):
        DpSgd(where="parameters").optimiser(torch.optim.SGD([torch.zeros(1)]), [nn.Linear(1, 1)], setting, RECIPE)


# The account


def course(*defences, **changes):
    return replace(COURSE, defences=defences, **changes)


def stated(defence, **changes):
    return defence.privacy(course(defence, **changes)).epsilon


def test_epsilon_counts_epochs_and_what_a_label_can_move():
    exact = gaussian_epsilon(sqrt(2) * sqrt(10) / 3.3, 1e-5)
    assert exact < stated(DpSgd(where="logits")) < 1.001 * exact
    assert stated(DpSgd(where="logits", clip=0.1)) > stated(DpSgd(where="logits"))  # 2 over the clip, not sqrt(2)
    assert stated(DpSgd(where="logits"), epochs=0) == 0


def test_feature_parties_together_get_one_release_of_logits_and_models_of_every_party_are_counted():
    assert stated(DpSgd(where="logits"), feature_parties=3) == stated(DpSgd(where="logits"))
    assert stated(DpSgd(where="parameters"), feature_parties=3) == renyi_epsilon(sqrt(10 * 4) / 3.3, 1e-5)


@pytest.mark.parametrize(
    ("where", "reason"),
    [("gradient", "the top is trained on clean labels"), ("embedding", "the bottom is trained on clean rows")],
)
def test_no_epsilon_where_noise_comes_after_what_learns(where, reason):
    told = DpSgd(where=where).privacy(course(DpSgd(where=where)))
    assert told.epsilon is None and told.sentence() == f"dp-sgd on {where}: no epsilon: {reason}"
    with pytest.raises(ConfigError, match=reason):
        DpSgd(where=where, epsilon=10)


def test_no_epsilon_where_labels_have_another_way():
    defence = DpSgd(where="logits")
    assert stated(defence, classes=0) is None and stated(DpSgd(where="logits", noise=0)) is None
    prior = LabelDP(mode="rr-with-prior")
    told = defence.privacy(course(prior, defence))
    assert told.epsilon is None and "label-dp" in told.reason
    assert defence.privacy(course(defence, PPDL())).epsilon is not None  # it is given a gradient, and no label
    private = DpSgd(where="parameters")
    assert private.privacy(course(private, MaxNorm())).epsilon is None
    assert private.privacy(course(private, plain_cut=False)).epsilon is None


def test_another_label_never_moves_the_clipped_gradient_at_the_logits_by_more():
    outputs = torch.randn(500, 6, generator=rng(), dtype=torch.float64) * 3
    p, first, second = (
        outputs.softmax(dim=1),
        torch.eye(6)[torch.arange(500) % 6],
        torch.eye(6)[(torch.arange(500) + 1) % 6],
    )
    for clip in (0.2, 0.7, 1.0, 3.0):
        defence = DpSgd(noise=0, clip=clip, where="logits")
        sent = [
            defence.protect((p - y) / 500, Local(Place.LOGITS, draws(), True, torch.arange(500))) * 500
            for y in (first, second)
        ]
        assert (sent[0] - sent[1]).norm(dim=1).max() <= min(2 * clip, sqrt(2)) + 1e-9


@pytest.mark.parametrize("where", ["logits", "parameters"])
@pytest.mark.parametrize(("epochs", "parties"), [(1, 1), (30, 1), (30, 3)])
def test_epsilon_is_that_of_the_whole_run_whatever_its_epochs_and_parties(where, epochs, parties):
    defence = DpSgd(epsilon=10.0, where=where)
    assert stated(defence, epochs=epochs, feature_parties=parties) == pytest.approx(10.0, rel=1e-6)


def test_epsilon_sets_the_noise_of_a_run():
    defence = DpSgd(epsilon=9.5, where="logits")
    noise = defence.multiplier(course(defence))
    assert released_epsilon(noise, sqrt(2), 10, 1e-5, 2) == pytest.approx(9.5)
    here = Local(Place.LOGITS, draws(), True, torch.arange(20_000), course=course(defence))
    sent = defence.protect(torch.zeros(20_000, 2), here) * 20_000
    assert sent.std().item() == pytest.approx(noise, rel=0.02)
    with pytest.raises(ConfigError, match="known length"):
        defence.multiplier(None)
    assert parse(defence.describe(), cl.defences, cl.Defence, "defence").epsilon == 9.5


def test_run_json_states_it_with_a_lower_bound(tmp_path):
    run = cl.train(make_task(2, "p0"), defences=[DpSgd(where="logits")], recipe=RECIPE, out=tmp_path / "run")
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    (told,) = map(Privacy.of_json, record["privacy"])
    assert (told.secret, told.observer, told.delta) == (Guarded.LABEL, Observer.FEATURE_PARTIES, 1e-5)
    assert told.epsilon == pytest.approx(released_epsilon(3.3, sqrt(2), 2, 1e-5, 3))
    assert told.at_least is not None and 0 <= told.at_least <= told.epsilon
    assert record["notes"] == [told.sentence()] == run.notes() and "(95 %)" in told.sentence()


def test_settings_are_checked_and_spelled():
    text = "dp-sgd:noise=2.0,clip=0.5,where=parameters,delta=1e-06"
    defence = parse(text, cl.defences, cl.Defence, "defence")
    assert (defence.noise, defence.clip, defence.where, defence.delta) == (2.0, 0.5, "parameters", 1e-6)
    assert parse(defence.describe(), cl.defences, cl.Defence, "defence").describe() == defence.describe()
    wrong = [
        {"noise": -1},
        {"clip": 0},
        {"where": "params"},
        {"delta": 0},
        {"delta": 1},
        {"epsilon": 0},
    ]
    for settings in [*wrong, {"epsilon": 1.0, "noise": 2.0}]:
        with pytest.raises(ConfigError):
            DpSgd(**settings)
