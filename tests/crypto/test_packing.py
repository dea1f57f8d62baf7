"""Coefficient packing, checked on small polynomials without any encryption."""

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from cutlayer.crypto import PlainRows
from cutlayer.crypto.envelope import MatrixSource
from cutlayer.crypto.packing import Packing

DEGREE, MODULUS = 64, 1 << 16


def multiply(left, right):
    """Polynomials modulo X^64 + 1 and 2^16."""
    product = np.convolve(left, right)
    low, high = product[:DEGREE], product[DEGREE:]
    return (low - np.pad(high, (0, DEGREE - len(high)))) % MODULUS


@settings(max_examples=150)
@given(st.integers(1, 9), st.integers(1, 12), st.integers(1, 150), st.integers(0, 6), st.integers(0, 99))
def test_products_sit_where_the_packing_says(rows, inner, columns, log_group, seed):
    rng = np.random.default_rng(seed)
    width = Packing(inner, columns, DEGREE).width
    packing = Packing(inner, columns, DEGREE, 2 ** min(log_group, (DEGREE // width).bit_length() - 1))
    x, matrix = rng.integers(-99, 99, (rows, inner)), rng.integers(0, MODULUS, (inner, columns))
    x[:, rng.random(inner) < 0.3] = 0
    operands = [polynomial.astype(np.int64) for polynomial in packing.operand(matrix)]
    assert len(operands) == packing.operands
    assert np.array_equal(packing.read_operand(operands), matrix)
    pieces, out = list(PlainRows.dense(x).chunks(packing.capacity)), np.full((rows, columns), -1)
    chunks = list(packing.chunks(rows))
    assert len(chunks) == packing.results(rows)
    for number, (batch, span, places) in enumerate(chunks):
        block, piece = divmod(number, len(pieces))
        total = np.zeros(DEGREE, np.int64)
        for groups, table in packing.multipliers(pieces[piece]):
            for group, row in zip(groups, table, strict=True):
                multiplier = np.zeros(DEGREE, np.int64)
                multiplier[:: packing.run] = row
                total += multiply(operands[block * packing.groups + group], multiplier)
        out[batch, span] = total[places] % MODULUS
    assert np.array_equal(out, (x @ matrix) % MODULUS)


def multiplied(packing, rows):
    pairs = (zip(groups, table.tolist(), strict=True) for groups, table in packing.multipliers(rows))
    return dict(itertools.chain.from_iterable(pairs))


def test_columns_of_zeros_are_not_multiplied():
    rows = PlainRows((1, 5), np.array([0, 0, 0]), np.array([1, 3, 4]), np.array([1, 0, 2]))
    assert multiplied(Packing(5, 32, DEGREE), rows) == {1: [1, 0], 4: [2, 0]}
    assert multiplied(Packing(5, 32, DEGREE, 2), rows) == {0: [1, 0], 2: [0, 2]}


def test_many_columns_are_built_a_few_at_a_time():
    rows = PlainRows.dense(np.arange(1, 301)[None, :])
    assert multiplied(Packing(300, 64, DEGREE), rows) == {i: [i + 1] for i in range(300)}


def test_the_group_is_the_smallest_that_fits_or_the_one_with_least_traffic():
    assert Packing.choose(MatrixSource(16, 4), DEGREE, most=16, weight=3).group == 1
    assert Packing.choose(MatrixSource(16, 4), DEGREE, most=7, weight=3).group == 4
    once = Packing.choose(MatrixSource(16, 4, for_rows=16), DEGREE, most=16, weight=3)
    tried = [Packing(16, 4, DEGREE, group) for group in (1, 2, 4, 8, 16)]
    costs = {packing.group: 3 * packing.operands + packing.results(16) for packing in tried}
    assert costs[once.group] == min(costs.values()) < costs[1]
