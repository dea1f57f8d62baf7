"""SFA's checks on numbers small enough to check by hand, and on a short secure training."""

from functools import cache

import pytest
import torch

import cutlayer as cl
from cutlayer.cuts.secure_sum import SecureSum
from cutlayer.data.task import Features, Goal, Task
from cutlayer.errors import ConfigError
from cutlayer.models import named
from cutlayer.papers.sfa import checks as sfa_checks
from cutlayer.rng import generator

ROWS = 2000


def make_task(mix: float, own: bool = True) -> Task:
    """Two parties; the second's columns are the first's, times `mix`, and something of their own."""
    draws = generator(2, "sfa checks")
    held = torch.rand(ROWS, 3, generator=draws)
    other = mix * held + (1 - mix) * torch.rand(ROWS, 3, generator=draws)
    features = {"bank": Features(held)} if own else {}
    features |= {"shop": Features(other)} if own else {"shop": Features(other), "tele": Features(held)}
    labels = (other.sum(1) > 1.5).long()
    rows = torch.arange(ROWS)
    return Task("toy", features, labels, "bank", Goal.BINARY, ("no", "yes"), rows[500:], rows[:500])


@cache
def run_of(mix: float = 0.0, secure: bool = True, own: bool = True, scheme: str = "bfv") -> cl.Run:
    models = {"bottoms": named.bottom("linear"), "top": named.top("relu-mlp:hidden=4"), "width": 5}
    recipe = cl.Recipe(epochs=1, batch_size=250, lr=0.01)
    cut = SecureSum(scheme=scheme) if secure else cl.Sum()
    return cl.train(make_task(mix, own), cut=cut, recipe=recipe, keep="none", **models)


def test_baselines_of_uniform_columns():
    """E x^2 = 1/3, Var x = 1/12, E (x - u)^2 = 1/6; columns that copy the attacker's are known to the control."""
    errors = sfa_checks.baselines(run_of(secure=False))
    assert errors["zeros"] == pytest.approx(1 / 3, abs=0.02) and errors["mean row"] == pytest.approx(1 / 12, abs=0.005)
    assert errors["uniform guess"] == pytest.approx(1 / 6, abs=0.005)
    (control,) = (value for name, value in errors.items() if "control" in name)
    assert control == pytest.approx(1 / 12, abs=0.005)
    copied = sfa_checks.baselines(run_of(mix=1.0, secure=False))
    assert next(value for name, value in copied.items() if "control" in name) < 1e-4
    assert len(sfa_checks.baselines(run_of(secure=False, own=False))) == 3


def test_regression_finds_the_mask_as_far_as_columns_are_unrelated():
    near, far = sfa_checks.mask_regression(run_of()), sfa_checks.mask_regression(run_of(mix=0.5))
    assert near["W_mask"] < 0.05 and near["mask"] < 0.05 and near["embeddings"] < 0.1
    assert near["explained by own columns"] < 0.01
    floats = sfa_checks.mask_regression(run_of(scheme="none"))
    assert floats["W_mask"] < 0.05 and floats["embeddings beyond own columns"] < 1e-6
    assert far["W_mask"] > 0.1 and far["embeddings"] > 0.5
    assert far["explained by own columns"] == pytest.approx(0.5, abs=0.05)  # equal shares
    assert max(errors["embeddings beyond own columns"] for errors in (near, far)) < 1e-3  # no mask is left there


def test_the_error_of_grn_is_noted_as_it_trains(monkeypatch):
    monkeypatch.setattr(sfa_checks, "Grn", lambda **settings: cl.attacks.Grn(**settings, epochs=2, images=64))
    errors = sfa_checks.grn_epochs(run_of())
    assert len(errors) == 3 * 2 and all(0 < value < 1 for value in errors.values())
    assert len(sfa_checks.grn_epochs(run_of(secure=False))) == 2


def test_a_mask_must_be_there_to_be_estimated():
    with pytest.raises(ConfigError, match="secure-sum"):
        sfa_checks.mask_regression(run_of(secure=False))
    with pytest.raises(ConfigError, match="columns of its own"):
        sfa_checks.mask_regression(run_of(own=False))
