import numpy as np
import pytest
import torch

from cutlayer.attacks.tools.binary import recover as module
from cutlayer.attacks.tools.binary.recover import recover_binary
from cutlayer.errors import ConfigError, DataError
from tests.helpers.binary_tables import exact, sent, table


def same(one, two):
    return all(np.array_equal(getattr(one, f), getattr(two, f)) for f in ("columns", "residuals", "note"))


def test_a_small_span_is_enumerated_and_complete():
    columns, bits = table(1000, 12)
    found = recover_binary(torch.from_numpy(sent(columns)))
    assert exact(found.columns, bits) == len(found.columns) == 5
    assert found.certified and found.method == "enumerate" and found.rank == 12 and found.residuals.max() < 1e-9


@pytest.mark.parametrize("rank", [25, 40])
def test_relations_confine_the_columns_and_prove_completeness(rank):
    columns, bits = table(2500, rank)
    found = recover_binary(sent(columns))
    assert exact(found.columns, bits) == len(found.columns) == 5
    assert found.certified and found.method == "null-space"
    assert found.note.startswith(f"5 relations confine two-valued columns to 5 of {rank} dimensions")
    assert same(found, recover_binary(sent(columns)))


def test_no_relation_is_a_proof_of_absence():
    columns, _ = table(1500, 30, shares=())
    found = recover_binary(sent(columns))
    assert found.columns.shape == (0, 1500) and found.residuals.shape == (0,)
    assert found.certified and found.note == "nullity 0: no two-valued column lies in the span"


def test_with_few_rows_it_searches_and_claims_nothing_about_the_rest():
    columns, bits = table(600, 40)
    found = recover_binary(sent(columns), seed=1)
    assert exact(found.columns, bits) == len(found.columns) == 5
    assert found.certified is None and found.method == "lifted"
    assert same(found, recover_binary(sent(columns), seed=1))


def test_with_few_rows_and_no_two_valued_column_nothing_is_made_up():
    columns, _ = table(400, 30, shares=())
    found = recover_binary(sent(columns), seconds=3)
    assert not len(found.columns) and found.certified is None


def test_discrete_columns_fill_the_relations_and_are_searched(monkeypatch):
    """A one-hot group too large to list, beside integers: all its levels are found, and nothing is certified."""
    rng = np.random.default_rng(0)
    level = rng.permutation(np.arange(3000) % 24)
    one_hot = (level[:, None] == np.arange(24)).astype(float)
    columns = np.column_stack([one_hot, rng.integers(0, 5, (3000, 4)), rng.integers(0, 2, 3000)])
    found = recover_binary(sent(columns))
    assert exact(found.columns, columns[:, [*range(24), 28]].T > 0.5) == 25
    assert found.certified is None and "not certified" in found.note


def test_columns_are_found_under_noise():
    columns, bits = table(3000, 20)
    found = recover_binary(sent(columns, extra=80, noise=0.2))
    assert found.method == "noisy" and found.rank == 20 and found.certified is None
    assert found.note.startswith(("noise of deviation 0.2", "noise of deviation 0.19"))
    right = [max(max((f == b).mean(), (f != b).mean()) for f in found.columns) for b in bits]
    assert np.mean(right) > 0.99 and len(found.columns) == 5


def test_noise_alone_is_not_a_finding():
    columns, _ = table(3000, 10, shares=())
    found = recover_binary(sent(columns, extra=40, noise=0.2))
    assert not len(found.columns) and found.method == "noisy"
    noise = np.random.default_rng(0).standard_normal((1500, 25))
    assert not len(recover_binary(noise, seconds=2).columns)


@pytest.mark.parametrize("width", [15, 60])
def test_messages_that_are_not_linear_hold_nothing(width):
    columns, _ = table(3000, 30)
    mixed = columns @ np.random.default_rng(0).standard_normal((30, width)) / 5
    found = recover_binary(np.tanh(mixed).astype(np.float32), seconds=5)
    assert not len(found.columns)


def test_bad_input_is_refused_in_words():
    good = np.random.default_rng(0).standard_normal((50, 5))
    bad = good.copy()
    bad[3, 2] = np.nan
    for matrix, words in ((bad, "NaN"), (good[:4], "more rows"), (np.ones((50, 5)), "rank zero"), (good[0], "shape")):
        with pytest.raises(DataError, match=words):
            recover_binary(matrix)
    with pytest.raises(ConfigError, match="method"):
        recover_binary(good, method="magic")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="seconds"):
        recover_binary(good, seconds=0)
    with pytest.raises(DataError, match="products"):
        recover_binary(good[:12], method="null-space")
    with pytest.raises(ConfigError, match="noise="):
        recover_binary(good, method="noisy")


def test_the_budget_ends_a_search(monkeypatch):
    columns, _ = table(3000, 60, shares=())
    monkeypatch.setattr(module, "SHARE", 0)
    found = recover_binary(sent(columns), seconds=0.01)
    assert found.method == "lifted" and not len(found.columns)
