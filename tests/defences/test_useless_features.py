"""Useless features: as many columns as set, drawn once per record, independent of everything else."""

import pytest
import scipy.sparse
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import cutlayer as cl
from cutlayer.attacks import ModelCompletion, ModelInversion
from cutlayer.auditing.attacking import attack_run
from cutlayer.blocks.sparse import SparseRows
from cutlayer.checkpoint import digest
from cutlayer.defence import Role, Setting, Subject
from cutlayer.defences import UselessFeatures
from cutlayer.defences.useless_features import Padded
from cutlayer.errors import ConfigError
from cutlayer.spec import parse
from tests.helpers.small_task import make_task
from tests.helpers.toy import draws, rng

RECIPE = cl.Recipe(epochs=2, batch_size=32)


def setting(role=Role.FEATURE_PARTY, subject=Subject.FEATURES, seed=0):
    return Setting(party="shop", role=role, subject=subject, classes=2, rng=draws(seed), shared_seed=0)


@given(st.integers(1, 40), st.floats(0.01, 6))
def test_as_many_as_told_and_the_real_ones_stay_first(columns, times):
    defence, table = UselessFeatures(times=times), torch.rand(5, columns, generator=rng())
    padded = defence.features(table, setting())
    assert torch.equal(padded[:, :columns], table) and padded.shape == (5, columns + defence.added(columns))
    assert defence._own(padded.shape[1]) == columns  # the bottom finds out how many are real


def test_shuffled_columns_have_the_values_of_real_ones_in_turn():
    table = torch.rand(300, 3, generator=rng())
    padded = UselessFeatures(times=5 / 3).features(table, setting())
    assert padded.shape == (300, 8)
    for useless, real in ((3, 0), (4, 1), (5, 2), (6, 0), (7, 1)):
        assert torch.equal(padded[:, useless].sort().values, table[:, real].sort().values)
        assert not torch.equal(padded[:, useless], table[:, real])


def test_normal_columns_have_the_mean_and_spread_of_real_ones():
    table = torch.stack([torch.full((50_000,), 3.0), (torch.arange(50_000) % 2).float() * 4], dim=1)
    padded = UselessFeatures(draw="normal").features(table, setting())
    assert padded[:, 2].tolist() == [3.0] * 50_000  # a constant has no spread
    assert padded[:, 3].mean().item() == pytest.approx(2, abs=0.05)
    assert padded[:, 3].std().item() == pytest.approx(2, rel=0.02)


@pytest.mark.parametrize("draw", ["shuffle", "normal"])
def test_they_say_nothing_about_anything(draw):
    table = torch.randn(20_000, 3, generator=rng())
    padded = UselessFeatures(times=2.0, draw=draw).features(table, setting())
    between = torch.corrcoef(padded.T)[:, 3:] - torch.eye(9)[:, 3:]
    assert between.abs().max() < 0.03


def test_drawn_once_from_the_partys_own_stream():
    table = torch.rand(50, 2, generator=rng())
    first, again, other = (UselessFeatures().features(table, setting(seed=seed)) for seed in (1, 1, 2))
    assert torch.equal(first, again) and not torch.equal(first, other)


@pytest.mark.parametrize(
    ("at", "roles"), [("all", list(Role)), ("features", [Role.FEATURE_PARTY]), ("label", [Role.LABEL_PARTY])]
)
def test_who_pads(at, roles):
    table = torch.rand(6, 2)
    layer = nn.Linear(4, 3)
    for role in Role:
        defence = UselessFeatures(at=at)
        assert (defence.features(table, setting(role)) is not table) == (role in roles)
        assert isinstance(defence.model(layer, setting(role, Subject.BOTTOM)), Padded) == (role in roles)
        assert defence.model(layer, setting(role, Subject.TOP)) is layer


def test_rows_without_them_get_their_running_mean():
    torch_layer = nn.Linear(4, 2)
    padded = Padded(torch_layer, own=3, total=4)
    rows = torch.rand(10, 4, generator=rng())
    padded.train()(rows)
    padded(rows)
    usual = rows[:, 3].mean() * (1 - 0.9**2)
    assert padded.usual.item() == pytest.approx(usual.item())
    expected = torch_layer(torch.cat([rows[:, :3], usual.expand(10, 1)], dim=1))
    assert torch.allclose(padded.eval()(rows[:, :3]), expected, atol=1e-6)
    assert torch.equal(padded(rows), torch_layer(rows)) and padded.usual.item() == pytest.approx(usual.item())


def test_a_run_reopens_with_the_same_columns(tmp_path):
    task, defences = make_task(2, "p0"), [UselessFeatures(times=1.5)]
    run = cl.train(task, defences=defences, recipe=RECIPE, out=tmp_path / "run")
    again = cl.Run.open(tmp_path / "run", task, run.plan)
    assert torch.equal(run.predict(task.test), again.predict(task.test))
    for name in task.features:
        assert torch.equal(run.session.parties[name].features, again.session.parties[name].features)
        assert digest(run.models[f"{name}.bottom"]) == digest(again.models[f"{name}.bottom"])


def test_attacks_that_have_no_useless_columns_run_all_the_same():
    run = cl.train(make_task(2, "p0"), defences=[UselessFeatures()], recipe=RECIPE)
    for attack in (ModelCompletion(labels=6), ModelInversion(steps=5)):
        (finding,) = attack_run(run, [attack])
        assert finding.value == finding.value, attack


def test_what_it_refuses():
    for wrong in ({"times": 0}, {"times": float("inf")}, {"draw": "copy"}, {"at": "both"}):
        with pytest.raises(ConfigError):
            UselessFeatures(**wrong)
    for values in (
        SparseRows.from_scipy(scipy.sparse.eye(4)),
        torch.rand(4, 1, 3, 3),
        torch.ones(4, 3, dtype=torch.int64),
    ):
        with pytest.raises(ConfigError, match="a dense table of numbers"):
            UselessFeatures().features(values, setting())
    with pytest.raises(ConfigError, match="begins with a linear layer"):
        UselessFeatures().model(nn.Embedding(4, 3), setting(subject=Subject.BOTTOM))


def test_spelling():
    import cutlayer.defences as package
    from cutlayer.defence import Defence

    text = "useless-features:times=2.5,draw=normal,at=label"
    assert parse(text, package, Defence, "defence").describe() == text
