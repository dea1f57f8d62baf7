import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cutlayer.attacks.tools.binary.span import checked, pivot_rows, span_of
from cutlayer.errors import ConfigError, DataError


def messages(rows, columns, width, seed=0, dtype=np.float32, grade=1.0):
    """Columns, the first of them binary, and linear messages of them whose weights fall off to `grade`."""
    rng = np.random.default_rng(seed)
    features = rng.random((rows, columns))
    features[:, 0] = features[:, 0] > 0.5
    weights = rng.standard_normal((columns, width)) * np.geomspace(1, grade, columns)[:, None]
    return features, features.astype(dtype) @ weights.astype(dtype)


def test_two_columns_that_are_multiples_span_a_line():
    span = span_of(np.array([[3.0, 6], [4, 8], [0, 0]]))
    assert span.rank == 1 and not span.centred
    assert np.abs(span.basis[:, 0]) == pytest.approx([0.6, 0.8, 0])
    assert span.values == pytest.approx([125**0.5, 0], abs=1e-12)


def test_centring_takes_the_mean_off():
    """Columns (1, 2, 3) and (5, 5, 5): only (-1, 0, 1) is left."""
    matrix = np.array([[1.0, 5], [2, 5], [3, 5]])
    assert span_of(matrix).rank == 2
    span = span_of(matrix, centred=True)
    assert span.rank == 1 and span.centred and np.abs(span.basis[:, 0]) == pytest.approx([0.5**0.5, 0, 0.5**0.5])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("grade", [1, 1e-4])
@pytest.mark.parametrize("width", [10, 40])
def test_rounding_shows_as_a_cliff_and_the_columns_lie_in_the_span(dtype, grade, width):
    features, sent = messages(20_000, 10, width, dtype=dtype, grade=grade)
    span = span_of(sent)
    assert span.rank == 10 and len(span.values) == width
    assert np.allclose(span.basis.T @ span.basis, np.eye(10), atol=1e-12)
    rest = features - span.basis @ (span.basis.T @ features)
    assert np.abs(rest[:, 0]).max() < (1e-3 if dtype is np.float32 else 1e-9)


def test_the_singular_values_are_exact_far_below_the_root_of_the_rounding():
    """A Gram matrix could not tell 1e-11 from zero."""
    rng = np.random.default_rng(0)
    left, right = (np.linalg.qr(rng.standard_normal((size, 3)))[0] for size in (9_000, 3))
    span = span_of(left @ np.diag([1, 1e-4, 1e-11]) @ right.T, rank=3)
    assert span.values == pytest.approx([1, 1e-4, 1e-11], rel=1e-4)
    assert np.allclose(span.basis.T @ span.basis, np.eye(3), atol=1e-12)


def test_the_strongest_directions_come_first():
    _, sent = messages(500, 6, 20)
    assert np.allclose(np.abs(span_of(sent, rank=6).basis[:, :2]), np.abs(span_of(sent, rank=2).basis), atol=1e-9)


def test_noise_has_no_cliff():
    _, sent = messages(500, 6, 20)
    assert span_of(sent + np.random.default_rng(1).normal(0, 0.1, sent.shape)).rank == 20


@given(st.integers(0, 10_000), st.integers(1, 8), st.integers(0, 4))
def test_pivot_rows_determine_a_vector_of_the_span(seed, columns, more):
    _, sent = messages(60, columns, columns + more, seed, np.float64)
    basis = span_of(sent).basis
    rows = pivot_rows(basis)
    assert len(set(rows.tolist())) == basis.shape[1] == columns
    vector = basis @ np.random.default_rng(seed).standard_normal(columns)
    assert np.allclose(basis @ np.linalg.solve(basis[rows], vector[rows]), vector, atol=1e-8)


def test_tensors_and_whole_numbers_are_taken():
    sent = torch.arange(12).reshape(4, 3)
    assert checked(sent.float().requires_grad_()).dtype == np.float64
    assert checked(sent).tolist() == sent.tolist()


@pytest.mark.parametrize(
    ("matrix", "words"),
    [
        ([[1.0, np.nan], [0, 1], [1, 1]], "finite messages, got NaN"),
        (np.zeros(3), r"rows x width, got shape \(3,\)"),
        (np.zeros((0, 3)), "got shape"),
        (np.zeros((5, 2)), "rank zero"),
        (np.eye(3), "more rows than the rank 3, got 3"),
    ],
)
def test_what_it_refuses(matrix, words):
    with pytest.raises(DataError, match=words):
        span_of(matrix)


def test_what_it_refuses_when_centred_or_told_the_rank():
    constant = np.full((50, 4), 0.1, dtype=np.float32) * np.arange(1, 5, dtype=np.float32)
    assert span_of(constant).rank == 1
    with pytest.raises(DataError, match="rank zero"):
        span_of(constant, centred=True)
    with pytest.raises(DataError, match="more rows than the rank 3, got 3"):
        span_of(np.eye(3), centred=True)
    with pytest.raises(DataError, match="rank=5 directions, the messages have 1"):
        span_of(constant, rank=5)
    with pytest.raises(ConfigError, match="rank=0"):
        span_of(constant, rank=0)
