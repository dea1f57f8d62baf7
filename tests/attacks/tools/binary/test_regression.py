from itertools import product

import numpy as np
import pytest

from cutlayer.attacks.tools.binary import regression
from cutlayer.attacks.tools.binary.enumeration import binary_vectors
from cutlayer.attacks.tools.binary.regression import basis_for, close_vectors, distance
from cutlayer.attacks.tools.binary.span import span_of
from cutlayer.errors import ConfigError, DataError


def noisy(std, rows=2_000, columns=6, width=40, seed=0):
    """Columns, the first binary, and messages under noise."""
    rng = np.random.default_rng(seed)
    features = rng.random((rows, columns))
    features[:, 0] = features[:, 0] > 0.5
    sent = features @ rng.standard_normal((columns, width)) / columns**0.5
    return features, sent + std * rng.standard_normal(sent.shape)


def test_distances_by_hand():
    """From the line of (1, 1, 0, 0)/sqrt(2): (1, 0, 0, 0) is 1 - 1/2 away; normalised over one 1, over two 0."""
    basis = np.array([[1.0], [1], [0], [0]]) / 2**0.5
    vectors = np.array([[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [1, 1, 1, 1]], dtype=bool).T
    assert distance(basis, vectors, "literal") == pytest.approx([0.5, 0, 1, 2], abs=1e-12)
    assert distance(basis, vectors, "normalised") == pytest.approx([0.5, 0, 1, np.inf], abs=1e-12)


@pytest.mark.parametrize("table", [1, 2, 8])
def test_all_scores_are_those_of_the_pseudo_code(monkeypatch, table):
    """Each choice of bits by least squares on the scaled sample, rounded on all other rows, one at a time."""
    monkeypatch.setattr(regression, "TABLE", table)
    monkeypatch.setattr(regression, "ROWS", 7)
    rng = np.random.default_rng(0)
    matrix = rng.standard_normal((30, 3))
    basis = np.linalg.qr(matrix)[0]
    share = (basis**2).sum(axis=1) / 3
    rows = np.random.default_rng(1).choice(30, size=4, replace=False, p=share)
    scale = np.diag(1 / np.sqrt(4 * share[rows]))
    extended = regression._extended(basis, 4, np.random.default_rng(1))
    for select in ("literal", "normalised"):
        scores = regression._all_scores(extended, basis, select)
        for number, bits in enumerate(product([0, 1], repeat=4)):
            bits = np.array(bits[::-1], dtype=float)  # the lowest bit first
            weights = np.linalg.lstsq(scale @ matrix[rows], scale @ bits)[0]
            x = matrix @ weights >= 0.5
            x[rows] = bits > 0.5
            assert len(scores) == 16 and scores[number] == pytest.approx(
                distance(basis, x[:, None], select)[0], rel=1e-4, abs=1e-5
            )


@pytest.mark.parametrize(("basis", "least"), [("columns", 0.97), ("svd", 0.999)])
def test_noise_that_breaks_equations_leaves_the_column(basis, least):
    features, sent = noisy(0.1)
    close = close_vectors(basis_for(sent, 6, basis), rng=np.random.default_rng(0))
    assert close.vectors.shape == (2_000, 1) and close.scores.shape == (1,)
    assert (close.vectors[:, 0] == (features[:, 0] > 0.5)).mean() > least


def test_more_noise_is_less_accurate_and_svd_is_better():
    def accuracy(std, basis):
        features, sent = noisy(std)
        return (
            close_vectors(basis_for(sent, 6, basis), rng=np.random.default_rng(0)).vectors[:, 0] == features[:, 0]
        ).mean()

    columns = [accuracy(std, "columns") for std in (0.05, 0.2, 0.8)]
    assert columns[0] > columns[1] > columns[2]
    assert accuracy(0.8, "svd") > columns[2]


def test_the_literal_rule_returns_the_proof_device_under_noise():
    _, sent = noisy(0.1)
    close = close_vectors(basis_for(sent, 6, "columns"), rng=np.random.default_rng(0), select="literal")
    assert close.vectors[:, 0].nonzero()[0].tolist() == [0] and close.scores[0] <= 1


def test_without_noise_both_rules_find_the_column():
    features, sent = noisy(0)
    for select in ("literal", "normalised"):
        close = close_vectors(basis_for(sent, 6, "columns"), rng=np.random.default_rng(0), select=select)
        assert np.array_equal(close.vectors[:, 0], features[:, 0] > 0.5) and close.scores[0] < 1e-9


def test_kept_vectors_are_distinct_and_in_order():
    features, sent = noisy(0, columns=7)
    features[:, 1] = np.random.default_rng(5).random(2_000) < 0.2
    sent = features @ np.random.default_rng(6).standard_normal((7, 20))
    close = close_vectors(basis_for(sent, 7, "svd"), rng=np.random.default_rng(0), keep=4)
    assert close.vectors.shape == (2_000, 4) and (np.diff(close.scores) >= -1e-9).all()
    first = {bytes(np.packbits(x)) for x in close.vectors[:, :2].T}
    assert first == {bytes(np.packbits(features[:, j] > 0.5)) for j in (0, 1)}
    dense = close.vectors / np.linalg.norm(close.vectors, axis=0)
    assert (dense.T @ dense - np.eye(4)).max() <= 0.9 + 1e-9


def test_constant_messages_of_one_bit_give_nothing_normalised():
    basis = np.full((10, 1), 10**-0.5)
    assert close_vectors(basis, rng=np.random.default_rng(0), sampled=1, repeats=2).vectors.shape == (10, 0)


def test_it_repeats_and_reports_progress():
    _, sent = noisy(0.3)
    basis, calls = basis_for(sent, 6, "columns"), []
    first, again = (
        close_vectors(basis, rng=np.random.default_rng(3), repeats=4, progress=lambda *step: calls.append(step))
        for _ in range(2)
    )
    assert np.array_equal(first.vectors, again.vectors) and calls[3] == (4, 4, "")


def test_what_it_refuses():
    rng = np.random.default_rng(0)
    with pytest.raises(ConfigError, match=r"2\^25; use binary-search"):
        close_vectors(np.linalg.qr(rng.random((60, 24)))[0], rng=rng)
    with pytest.raises(DataError, match="at least 3 rows that are not zero"):
        close_vectors(np.eye(9, 2), rng=rng)
    with pytest.raises(DataError, match="rank=9 directions"):
        basis_for(rng.random((60, 4)), 9, "columns")


@pytest.mark.parametrize("seed", [0, 1, 4])
def test_a_planted_bit_comes_first_and_a_real_column_second(seed):
    """Masquerade: P Q x + a u with Q of rank d - 1, and the paper's adaptive attack on the rows where a is 0."""
    rng = np.random.default_rng(seed)
    features = rng.random((5_000, 10))
    features[:, 0] = features[:, 0] > 0.5
    q, p, u = rng.standard_normal((10, 9)), rng.standard_normal((9, 40)), rng.standard_normal(40)
    planted = rng.random(5_000) < 0.5
    sent = (features @ q @ p + planted[:, None] * u).astype(np.float32)
    share = 1 - np.linalg.norm(np.linalg.qr(q)[0][0]) ** 2  # of the column's unit vector outside the rows of Q
    assert share < 0.2, "or no attack can tell the column"
    assert np.array_equal(binary_vectors(span_of(sent)), planted[:, None])
    close = close_vectors(basis_for(sent, 10, "columns"), rng=rng, keep=2)
    assert np.array_equal(close.vectors[:, 0], planted)
    assert (close.vectors[:, 1] == (features[:, 0] > 0.5)).mean() > 0.99
    left = span_of(sent[~planted])
    assert left.rank == 9 and binary_vectors(left).shape[1] == 0
    vector = close_vectors(left.basis, rng=rng).vectors[:, 0]
    assert (vector == (features[~planted, 0] > 0.5)).mean() > 0.99
