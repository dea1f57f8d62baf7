import numpy as np
import pytest
import torch

from cutlayer.attacks.tools.binary import recover as module
from cutlayer.attacks.tools.binary.recover import recover_binary
from cutlayer.errors import ConfigError, DataError
from tests.helpers.binary_tables import exact, sent, table


def same(first, second):
    return all(np.array_equal(getattr(first, f), getattr(second, f)) for f in ("columns", "residuals", "note"))


def test_a_small_span_is_enumerated_and_complete():
    columns, bits = table(1000, 12)
    recovery = recover_binary(torch.from_numpy(sent(columns)))
    assert exact(recovery.columns, bits) == len(recovery.columns) == 5
    assert (
        recovery.certified
        and recovery.method == "enumerate"
        and recovery.rank == 12
        and recovery.residuals.max() < 1e-9
    )


@pytest.mark.parametrize("rank", [25, 40])
def test_relations_confine_the_columns_and_prove_completeness(rank):
    columns, bits = table(2500, rank)
    recovery = recover_binary(sent(columns))
    assert exact(recovery.columns, bits) == len(recovery.columns) == 5
    assert recovery.certified and recovery.method == "null-space"
    assert recovery.note.startswith(f"5 relations confine two-valued columns to 5 of {rank} dimensions")
    assert same(recovery, recover_binary(sent(columns)))


def test_no_relation_is_a_proof_of_absence():
    columns, _ = table(1500, 30, shares=())
    recovery = recover_binary(sent(columns))
    assert recovery.columns.shape == (0, 1500) and recovery.residuals.shape == (0,)
    assert recovery.certified
    assert recovery.note == "nullity 0: no two-valued column lies in the span, down to 2e-07 of the strongest direction"


def test_with_few_rows_it_searches_and_claims_nothing_about_the_rest():
    columns, bits = table(600, 40)
    recovery = recover_binary(sent(columns), seed=1)
    assert exact(recovery.columns, bits) == len(recovery.columns) == 5
    assert recovery.certified is None and recovery.method == "lifted"
    assert same(recovery, recover_binary(sent(columns), seed=1))


def test_with_few_rows_and_no_two_valued_column_nothing_is_made_up():
    columns, _ = table(400, 30, shares=())
    recovery = recover_binary(sent(columns), seconds=3)
    assert not len(recovery.columns) and recovery.certified is None


def test_discrete_columns_fill_the_relations_and_are_searched(monkeypatch):
    """A one-hot group too large to list, next to integers: all its levels are found, and nothing is certified."""
    rng = np.random.default_rng(0)
    level = rng.permutation(np.arange(3000) % 24)
    one_hot = (level[:, None] == np.arange(24)).astype(float)
    columns = np.column_stack([one_hot, rng.integers(0, 5, (3000, 4)), rng.integers(0, 2, 3000)])
    recovery = recover_binary(sent(columns))
    assert exact(recovery.columns, columns[:, [*range(24), 28]].T > 0.5) == 25
    assert recovery.certified is None and "not certified" in recovery.note


def test_columns_are_found_under_noise():
    columns, bits = table(3000, 20)
    recovery = recover_binary(sent(columns, extra=80, noise=0.2))
    assert recovery.method == "noisy" and recovery.rank == 20 and recovery.certified is None
    assert recovery.note.startswith(("noise of deviation 0.2", "noise of deviation 0.19"))
    right = [max(max((f == b).mean(), (f != b).mean()) for f in recovery.columns) for b in bits]
    assert np.mean(right) > 0.99 and len(recovery.columns) == 5


def test_noise_alone_is_not_a_finding():
    columns, _ = table(3000, 10, shares=())
    recovery = recover_binary(sent(columns, extra=40, noise=0.2))
    assert not len(recovery.columns) and recovery.method == "noisy"
    noise = np.random.default_rng(0).standard_normal((1500, 25))
    assert not len(recover_binary(noise, seconds=2).columns)


@pytest.mark.parametrize("width", [15, 60])
def test_messages_that_are_not_linear_hold_nothing(width):
    columns, _ = table(3000, 30)
    mixed = columns @ np.random.default_rng(0).standard_normal((30, width)) / 5
    recovery = recover_binary(np.tanh(mixed).astype(np.float32), seconds=5)
    assert not len(recovery.columns)


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
    recovery = recover_binary(sent(columns), seconds=0.01)
    assert recovery.method == "lifted" and not len(recovery.columns)
