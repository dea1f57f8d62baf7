"""Self-taught: nothing that a feature party gets, learns or sends depends on a label."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import cutlayer as cl
from cutlayer.attacks import GradientClusters
from cutlayer.auditing.attacking import attack_run
from cutlayer.checkpoint import digest
from cutlayer.data.task import Goal
from cutlayer.defence import Course, Local, Place
from cutlayer.defences import SelfTaught
from cutlayer.defences.self_taught import likeness, unevenness
from cutlayer.errors import ConfigError
from cutlayer.message import Kind
from tests.helpers.small_task import make_task
from tests.helpers.toy import draws, rng

RECIPE = cl.Recipe(epochs=3, batch_size=32)


def local(place, labels=None):
    return Local(place, draws(), True, torch.arange(2), labels=labels)


def test_unevenness_by_hand():
    embedding = torch.tensor([[1.0, 5.0], [-1.0, 5.0]])  # covariance [[2, 0], [0, 0]], less I: [[1, 0], [0, -1]]
    assert unevenness(embedding).item() == pytest.approx((1 + 1) / 2)
    same = torch.tensor([[1.0, 1.0], [-1.0, -1.0], [0.0, 0.0]])  # covariance [[1, 1], [1, 1]]
    assert unevenness(same).item() == pytest.approx((1 + 1) / 2)
    even = torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]]) * 1.5**0.5  # covariance I
    assert unevenness(even).item() == pytest.approx(0, abs=1e-12)


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 30), st.integers(1, 6), st.integers(0, 99), st.floats(-50, 50))
def test_unevenness_does_not_care_where_embeddings_lie_or_how_they_are_turned(rows, width, seed, shift):
    embedding = torch.randn(rows, width, generator=rng(seed), dtype=torch.float64)
    turn = torch.linalg.qr(torch.randn(width, width, generator=rng(seed + 1), dtype=torch.float64)).Q
    there = unevenness(embedding).item()
    assert unevenness(embedding @ turn + shift).item() == pytest.approx(there, rel=1e-6, abs=1e-9) and there >= 0


def test_likeness_by_hand():
    inputs = torch.tensor([[1.0], [-1.0], [0.0]])  # inner products [[1, -1, 0], [-1, 1, 0], [0, 0, 0]]
    assert likeness(inputs * -3 + 7, inputs).item() == pytest.approx(1)  # scale, sign and place do not count
    other = torch.tensor([[1.0], [1.0], [-2.0]])  # [[1, 1, -2], [1, 1, -2], [-2, -2, 4]]: orthogonal to the first
    assert likeness(other, inputs).item() == pytest.approx(0, abs=1e-6)
    half = torch.cat([inputs, other / 3**0.5], dim=1)  # the sum of both, each of norm 2
    assert likeness(half, inputs).item() == pytest.approx(1 / 2**0.5)


def test_alike_adds_what_likeness_lacks():
    inputs, embedding = torch.tensor([[1.0], [-1.0], [0.0]]), torch.tensor([[1.0], [1.0], [-2.0]])
    here = Local(Place.EMBEDDING, draws(), True, torch.arange(3), inputs=inputs)
    spread, alike = (SelfTaught(teach=teach).penalty(embedding, here).item() for teach in ("spread", "alike"))
    assert alike == pytest.approx(spread + 1) and spread == pytest.approx(4)  # variance 3, less 1, squared
    with pytest.raises(ConfigError, match="dense"):
        tokens = Local(Place.EMBEDDING, draws(), True, torch.arange(3), inputs=inputs.long())
        SelfTaught(teach="alike").penalty(embedding, tokens)
    with pytest.raises(ConfigError, match="teach"):
        SelfTaught(teach="all")


def test_gradients_become_zeros_and_nothing_else_changes():
    payload = torch.tensor([[3.0, -4.0], [1.0, 2.0]])
    assert SelfTaught().protect(payload, local(Place.GRADIENT)).tolist() == [[0, 0], [0, 0]]
    for place in (Place.EMBEDDING, Place.LOGITS):
        assert SelfTaught().protect(payload, local(place)) is payload


def test_only_a_feature_party_teaches_itself():
    embedding = torch.tensor([[1.0, 5.0], [-1.0, 5.0]])
    assert SelfTaught().penalty(embedding, local(Place.EMBEDDING)).item() == pytest.approx(1)
    maps = embedding.view(2, 2, 1, 1)
    assert SelfTaught().penalty(maps, local(Place.EMBEDDING)).item() == pytest.approx(1)
    assert SelfTaught().penalty(embedding, local(Place.EMBEDDING, labels=torch.tensor([0, 1]))) is None
    assert SelfTaught(teach="nothing").penalty(embedding, local(Place.EMBEDDING)) is None
    assert SelfTaught().penalty(embedding[:1], local(Place.EMBEDDING)) is None  # one row has no covariance


@pytest.mark.parametrize(
    ("goal", "teach", "others"),
    [
        (Goal.MULTICLASS, "spread", []),
        (Goal.MULTICLASS, "alike", [cl.defences.GaussianNoise(std=0.5)]),
        (Goal.MULTICLASS, "nothing", []),
        (Goal.REGRESSION, "spread", []),
    ],
)
def test_a_feature_partys_side_is_the_same_for_any_labels_bit_for_bit(goal, others, teach):
    task = make_task(3, "p0", goal)
    runs = [
        cl.train(variant, defences=[*others, SelfTaught(teach=teach)], recipe=RECIPE, width=6, keep="all")
        for variant in (task, replace(task, labels=task.labels.flip(0)))
    ]
    for name in task.feature_parties:
        bottoms = {digest(run.models[f"{name}.bottom"]) for run in runs}
        assert len(bottoms) == 1
        sent = [run.view(name).channel(Kind.EMBEDDING, peer=name).read() for run in runs]
        back = [run.view(name).channel(Kind.GRADIENT, peer=name).read() for run in runs]
        for first, second in (sent, back):
            assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
        assert not back[0][1].any()
    assert digest(runs[0].models["p0.top"]) != digest(runs[1].models["p0.top"])  # the label party did learn


def test_taught_bottoms_move_and_untaught_ones_stay():
    task = make_task(2, "p0")
    begun, taught = (
        cl.train(task, defences=[SelfTaught(teach=teach)], recipe=RECIPE, width=4).session
        for teach in ("nothing", "spread")
    )
    rows = torch.arange(100)
    outputs = [s.parties["p1"].modules["bottom"](task.features["p1"].values[rows]) for s in (begun, taught)]
    assert unevenness(outputs[1]) < unevenness(outputs[0])
    again = cl.train(task, defences=[SelfTaught(teach="nothing")], recipe=RECIPE, epochs=1, width=4).session
    assert digest(again.parties["p1"].modules["bottom"]) == digest(begun.parties["p1"].modules["bottom"])


def test_gradient_clusters_get_no_further_than_own_columns():
    task = cl.data.digits(parties=2, limit=400)
    for defences, reads in (([], True), ([SelfTaught()], False)):
        run = cl.train(task, defences=defences, recipe=cl.Recipe(epochs=2, batch_size=64))
        (finding,) = attack_run(run, [GradientClusters(labels=40)])
        assert (finding.value > finding.baseline + 0.2) == reads
        assert reads or finding.value == pytest.approx(finding.baseline, abs=0.03)


def test_what_the_record_says():
    course = Course(rows=100, batch_size=10, epochs=3, feature_parties=1, classes=2)
    assert SelfTaught().privacy(course).epsilon == 0
    assert SelfTaught().privacy(replace(course, plain_cut=False)).epsilon is None


@pytest.mark.parametrize("teach", ["spread", "alike"])
def test_rows_of_zeros_teach_nothing_that_is_not_finite(teach):
    embedding = torch.zeros(4, 3, requires_grad=True)
    here = Local(Place.EMBEDDING, draws(), True, torch.arange(4), inputs=torch.zeros(4, 2))
    loss = SelfTaught(teach=teach).penalty(embedding, here)
    loss.backward()
    assert loss.isfinite() and embedding.grad.isfinite().all()
