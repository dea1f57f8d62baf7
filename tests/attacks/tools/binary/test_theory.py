"""The theorems of the paper on instances small enough to settle by brute force."""

from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cutlayer.attacks.tools.binary.enumeration import binary_vectors
from cutlayer.attacks.tools.binary.regression import close_vectors, distance
from cutlayer.attacks.tools.binary.span import span_of


def reduction(elements, sets):
    """Theorem 2: [I; incidence | -1; 2|S_j| | -2n], which has a 0/1 vector iff some sets cover every element once."""
    incidence = np.array([[float(i in s) for s in sets] + [-1.0] for i in range(elements)])
    sizes = np.array([[2.0 * len(s) for s in sets] + [-2.0 * elements]])
    return np.vstack([np.eye(len(sets) + 1), incidence, sizes])


def has_exact_cover(elements, sets):
    return any(
        sorted(i for s in chosen for i in s) == list(range(elements))
        for count in range(1, len(sets) + 1)
        for chosen in combinations(sets, count)
    )


def covers(elements, sets):
    """The exact covers that Algorithm 1 reads off the reduction."""
    vectors = binary_vectors(span_of(reduction(elements, sets)), tolerance=1e-6)
    return [[j for j in range(len(sets)) if vector[j]] for vector in vectors.T]


def test_the_reduction_by_hand():
    sets = [{0, 1}, {2}, {1, 2}]
    assert reduction(3, sets)[4:].tolist() == [[1, 0, 0, -1], [1, 0, 1, -1], [0, 1, 1, -1], [4, 2, 4, -6]]
    assert covers(3, sets) == [[0, 1]]
    assert covers(3, [{0, 1}, {1, 2}]) == []


@settings(max_examples=150)
@given(
    st.integers(1, 5).flatmap(
        lambda n: st.tuples(st.just(n), st.lists(st.sets(st.integers(0, n - 1), min_size=1), min_size=1, max_size=6))
    )
)
def test_theorem_2_a_binary_vector_is_an_exact_cover(instance):
    elements, sets = instance
    solutions = covers(elements, sets)
    assert bool(solutions) == has_exact_cover(elements, sets)
    for chosen in solutions:
        assert sorted(i for j in chosen for i in sets[j]) == list(range(elements))


@settings(max_examples=60)
@given(st.integers(0, 10_000), st.integers(2, 6), st.integers(1, 3))
def test_theorem_3_whatever_binary_vector_the_span_holds_is_found(seed, columns, planted):
    rng = np.random.default_rng(seed)
    planted = min(planted, columns)
    features = rng.standard_normal((40, columns))
    features[:, :planted] = rng.random((40, planted)) < rng.uniform(0.1, 0.9)
    if np.linalg.matrix_rank(features) < columns:
        return
    vectors = binary_vectors(span_of(features @ rng.standard_normal((columns, columns + 2))), tolerance=1e-6)
    for column in features[:, :planted].T:
        assert (vectors == (column[:, None] > 0.5)).all(axis=0).any()
    rest = vectors - features @ np.linalg.lstsq(features, vectors.astype(float))[0]
    assert np.abs(rest).max() < 1e-6, "and nothing else is returned"


@pytest.mark.parametrize("rows", [10, 12])
def test_theorem_5_the_literal_minimum_is_within_one_plus_epsilon(rows):
    """Against all 2^n vectors. Twenty repeats of r = d + 1 rows stay within epsilon = 1/2 in most instances."""
    every = np.array(list(product([False, True], repeat=rows))[1:]).T
    within = []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        basis = np.linalg.qr(rng.standard_normal((rows, 3)))[0]
        least = distance(basis, every, "literal").min()
        score = close_vectors(basis, rng=rng, select="literal").scores[0]
        assert score >= least - 1e-12
        within.append(score <= 1.5 * least + 1e-12)
    assert np.mean(within) > 0.8


def test_theorem_5_enough_rows_give_the_exact_minimum():
    """r = n samples every row, so every vector is tried."""
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.standard_normal((9, 2)))[0]
    every = np.array(list(product([False, True], repeat=9))[1:]).T
    for select in ("literal", "normalised"):
        result = close_vectors(basis, rng=rng, select=select, sampled=9, repeats=1)
        assert result.scores[0] == pytest.approx(distance(basis, every, select).min())
