"""That a search calls its answer complete where it is, and nowhere else."""

import numpy as np
import pytest

from cutlayer.attacks.tools.binary.recover import recover_binary
from cutlayer.errors import DataError
from tests.helpers.binary_tables import exact, sent, table
from tests.helpers.dumps import dump

CASES = 2_000


def test_no_false_certificate_over_scale_precision_width_noise_collinearity_and_outliers():
    false, certified, refused = [], 0, []
    for seed in range(CASES):
        case = dump(seed)
        try:
            found = recover_binary(case.messages, seconds=0.05)
        except DataError as error:
            refused.append(str(error))
            continue
        certified += bool(found.certified)
        if found.certified and exact(found.columns, case.bits) < len(case.bits):
            false.append(f"{case.about}: {found.note}")
    assert not false, "\n".join(false)
    assert certified > CASES / 50  # most are meant to deceive; these are not
    assert len(refused) < 5 and all("rank zero" in words for words in refused)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_clean_messages_are_certified(kind):
    """Plain tables under a random layer wider than they are, empty of two-valued columns or not."""
    certified = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        size, planted = int(rng.integers(5, 12)), int(rng.integers(0, 4))
        columns, bits = table(300, size, shares=(0.5, 0.3, 0.1)[:planted], seed=seed)
        weights = rng.standard_normal((size, size + int(rng.integers(4, 12))))
        found = recover_binary((columns @ weights + rng.standard_normal()).astype(kind), seconds=0.05)
        assert exact(found.columns, bits) == planted
        certified += bool(found.certified)
    assert certified >= 95


def test_messages_added_up_in_float32_are_certified():
    columns, bits = table(2000, 15)
    weights = np.random.default_rng(0).standard_normal((15, 32)).astype(np.float32)
    found = recover_binary(columns.astype(np.float32) @ weights + np.float32(0.3))
    assert found.certified and exact(found.columns, bits) == 5


@pytest.mark.parametrize("levels", [13, 14, 15, 16])
def test_a_large_one_hot_group_is_reported_and_refuses_nothing(levels):
    """Its sums are more than can be listed."""
    rng = np.random.default_rng(levels)
    group = np.eye(levels)[rng.permutation(np.arange(1500) % levels)]
    columns = np.column_stack([group, rng.standard_normal((1500, 5))])
    for method in ("auto", "enumerate"):
        found = recover_binary(sent(columns), method, seconds=20)
        assert exact(found.columns, group.T > 0.5) == levels
        assert found.certified is None or levels == 13


def test_a_column_that_rounding_drowns_is_fainter_than_what_the_note_claims():
    """Nobody can see it; so the note says how strong a column must be for its absence to be proved."""
    rng = np.random.default_rng(0)
    columns = np.column_stack([rng.random(1000) < 0.5, 1e10 * rng.standard_normal((1000, 4))])
    found = recover_binary(sent(columns))
    assert found.certified and not len(found.columns)
    limit = float(found.note.split("down to ")[1].split(" of the strongest")[0])
    assert 0.5 / 1e10 < limit < 1e-6


def test_a_rank_that_is_asked_for_proves_nothing_unless_it_is_the_measured_one():
    columns, bits = table(800, 8)
    assert recover_binary(sent(columns), rank=8).certified
    found = recover_binary(sent(columns), rank=6)
    assert found.certified is None and "rank=6 was asked for, and 8 directions stand above" in found.note


def test_what_is_not_certified_says_so_and_does_not_claim_absence():
    columns, bits = table(800, 8)
    found = recover_binary(np.tanh(sent(columns)))
    assert found.certified is None and not len(found.columns)
    assert "no two-valued column was found; not certified: all 18 directions" in found.note or found.method == "noisy"
    assert "lies in the span" not in found.note
