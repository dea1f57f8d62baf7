from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cutlayer.attacks.tools.binary import enumeration
from cutlayer.attacks.tools.binary.enumeration import binary_vectors, bits_of, extension, ordered, subset_sums
from cutlayer.attacks.tools.binary.span import Span, span_of
from cutlayer.errors import ConfigError, DataError


def brute_force(matrix, tolerance=1e-8):
    """Every nonzero 0/1 vector that least squares puts in the column space, in order."""
    vectors = np.array([bits for bits in product([0, 1], repeat=len(matrix)) if any(bits)], dtype=float).T
    rest = vectors - matrix @ np.linalg.lstsq(matrix, vectors)[0]
    return ordered(vectors[:, np.abs(rest).max(axis=0) < tolerance].astype(bool))


def mixed(features, width=None, seed=0, bias=0.0, dtype=np.float32):
    weights = np.random.default_rng(seed).standard_normal((features.shape[1], width or 2 * features.shape[1]))
    return (features @ weights + bias * np.arange(1, weights.shape[1] + 1)).astype(dtype)


def table(rows, columns, binary, seed=0):
    features = np.random.default_rng(seed).random((rows, columns))
    features[:, :binary] = features[:, :binary] > 0.4
    return features


def test_planes_by_hand():
    """a(1, 1, 0, 2) + b(0, 1, 1, 2) needs 2(a + b) = 0; a(1, 1, 0, 1) + b(0, 1, 2, 0) has a = 1, b = 0 alone."""
    assert binary_vectors(span_of(np.array([[1.0, 0], [1, 1], [0, 1], [2, 2]]))).shape == (4, 0)
    vectors = binary_vectors(span_of(np.array([[1.0, 0], [1, 1], [0, 2], [1, 0]])))
    assert vectors.T.tolist() == [[True, True, False, True]]


def test_tables_of_sums_and_bits_by_hand():
    assert subset_sums(np.array([[1.0, 10, 100]])).tolist() == [[0, 1, 10, 11, 100, 101, 110, 111]]
    assert bits_of(np.array([0, 1, 6]), 3).tolist() == [[0, 0, 0], [1, 0, 0], [0, 1, 1]]


def test_the_extension_is_the_identity_on_its_pivots():
    basis = np.linalg.qr(np.random.default_rng(0).standard_normal((30, 4)))[0]
    matrix = extension(basis)
    assert np.isclose(matrix, 1).any(axis=0).all() and np.linalg.matrix_rank(np.column_stack([matrix, basis])) == 4


@settings(max_examples=60)
@given(st.data())
def test_it_agrees_with_brute_force(data):
    """Small whole numbers have many binary combinations, constant columns and sums among them."""
    rows, columns = data.draw(st.integers(5, 9)), data.draw(st.integers(1, 3))
    cells = st.lists(st.integers(-2, 2), min_size=rows * columns, max_size=rows * columns)
    matrix = np.array(data.draw(cells), dtype=float).reshape(rows, columns)
    if np.linalg.matrix_rank(matrix) == 0:
        return
    assert np.array_equal(binary_vectors(span_of(matrix), tolerance=1e-6), brute_force(matrix))
    if np.ptp(matrix, axis=0).any():
        every = brute_force(np.column_stack([matrix, np.ones(rows)]))
        excess = 2 * every.sum(axis=0) - rows
        rarer = every[:, (excess < 0) | ((excess == 0) & ~every[0])]
        assert np.array_equal(binary_vectors(span_of(matrix, centred=True), tolerance=1e-6), rarer)


def canonical(vector):
    """A vector or its complement, whichever is 0 on the first row."""
    return bytes(np.packbits(vector ^ vector[0]))


@pytest.mark.parametrize(("columns", "binary"), [(1, 1), (2, 1), (9, 4), (16, 16), (20, 3)])
def test_every_binary_column_and_nothing_else(columns, binary):
    features = table(3_000, columns, binary)
    vectors = binary_vectors(span_of(mixed(features)))
    assert np.array_equal(vectors, ordered(features[:, :binary] > 0.5))


def test_a_bias_and_any_two_values_are_covered_by_centring():
    features = table(3_000, 8, 2)
    wanted = features[:, :2] > 0.5
    coded = np.column_stack([3 - 5 * features[:, 0], (features[:, 1] - 0.3) / 0.2, features[:, 2:]])
    for sent in (mixed(features, bias=0.7), mixed(coded), mixed(coded, bias=0.7)):
        vectors = binary_vectors(span_of(sent, centred=True))
        assert {canonical(x) for x in vectors.T} == {canonical(x) for x in wanted.T} and vectors.shape[1] == 2
        assert (vectors.mean(axis=0) <= 0.5).all()
    assert binary_vectors(span_of(mixed(coded))).shape[1] == 0, "without centring, neither is in the span"


def test_a_bias_adds_the_all_ones_vector_and_complements_to_the_span():
    features = table(3_000, 5, 1)
    vectors = binary_vectors(span_of(mixed(features, bias=0.7)))
    assert np.array_equal(
        vectors, ordered(np.column_stack([features[:, :1] > 0.5, features[:, :1] < 0.5, np.ones(3_000) > 0]))
    )


def test_sums_of_one_hot_columns_are_solutions():
    """As in covertype: four indicators have 2^4 - 1 sums, the last of them constant; centred, 7 pairs are left."""
    level = np.random.default_rng(0).integers(0, 4, 2_000)
    features = np.column_stack([level[:, None] == np.arange(4), table(2_000, 6, 0)])
    vectors = binary_vectors(span_of(mixed(features)))
    sums = ordered(subset_sums(features[:, :4]).astype(bool)[:, 1:])
    assert vectors.shape[1] == 15 and np.array_equal(vectors, sums) and vectors[:, -1].all()
    assert binary_vectors(span_of(mixed(features), centred=True)).shape[1] == 7


def test_the_order_does_not_depend_on_the_basis():
    features = table(500, 8, 4)
    span = span_of(mixed(features))
    turn = np.linalg.qr(np.random.default_rng(1).standard_normal((8, 8)))[0]
    other = Span(span.basis @ turn, span.values, False)
    first = binary_vectors(span)
    assert np.array_equal(first, binary_vectors(other))
    assert (np.diff(first.sum(axis=0)) >= 0).all()


def test_curved_messages_hold_nothing():
    features = table(2_000, 6, 3)
    assert binary_vectors(span_of(np.tanh(mixed(features)), rank=6)).shape == (2_000, 0)
    assert binary_vectors(span_of(np.tanh(mixed(features)), centred=True)).shape == (2_000, 0)


def test_a_constant_column_is_one_solution_and_none_when_centred():
    features = np.column_stack([np.full(200, 0.5), table(200, 3, 0)])
    assert binary_vectors(span_of(mixed(features))).all(axis=0).tolist() == [True]
    assert binary_vectors(span_of(mixed(features), centred=True)).shape == (200, 0)


def test_small_blocks_find_the_same_and_progress_ends_at_the_total(monkeypatch):
    span = span_of(mixed(table(1_000, 12, 5)))
    whole = binary_vectors(span)
    monkeypatch.setattr(enumeration, "PAIRS", 10)
    calls = []
    assert np.array_equal(binary_vectors(span, progress=lambda done, total, text: calls.append((done, total))), whole)
    assert calls[-1] == (2**12, 2**12) and calls == sorted(calls) and len(calls) > 5


def test_it_refuses_what_takes_too_long_or_never_ends():
    with pytest.raises(ConfigError, match=r"2\^33; use binary-search"):
        binary_vectors(span_of(table(100, 33, 0)))
    one_hot = np.arange(300)[:, None] % 14 == np.arange(14)
    with pytest.raises(DataError, match="one-hot group"):
        binary_vectors(span_of(one_hot.astype(float)))
