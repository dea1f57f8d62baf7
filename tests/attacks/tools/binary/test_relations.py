import numpy as np
import pytest

from cutlayer.attacks.tools.binary import relations as module
from cutlayer.attacks.tools.binary.relations import products, relations, unknowns
from cutlayer.attacks.tools.binary.span import span_of
from tests.helpers.binary_tables import table


def whitened(columns):
    return span_of(columns, centred=True).basis * len(columns) ** 0.5


def test_products_of_a_row():
    row = products(np.array([[2.0, 3.0]]))[0]
    assert row == pytest.approx([4 / 2**0.5, 6, 9 / 2**0.5, 2, 3, 1]) and len(row) == unknowns(2)


@pytest.mark.parametrize(
    ("levels", "nullity"),
    [
        ((2, 0, 0), 1),  # one two-valued column
        ((2, 2, 0), 2),
        ((0, 0, 0), 0),  # none: a proof
        ((3, 0, 0), 0),  # three values obey a cubic, not a quadratic
    ],
)
def test_nullity_counts_two_valued_columns(levels, nullity):
    rng = np.random.default_rng(0)
    columns = np.stack([rng.integers(0, n, 400) if n else rng.standard_normal(400) for n in levels], axis=1)
    result = relations(whitened(columns.astype(float)))
    assert result.nullity == nullity and result.directions.shape == (3, nullity) and result.least > 1e-3


def test_a_group_of_four_has_six_relations_in_three_dimensions():
    """Every product of two of its levels is zero: six relations, but only three dimensions for columns."""
    rng = np.random.default_rng(0)
    one_hot = np.eye(4)[rng.integers(0, 4, 500)]
    result = relations(whitened(np.column_stack([one_hot, rng.standard_normal((500, 2))])))
    assert result.nullity == 6 and result.directions.shape == (5, 3)


def test_inverse_iteration_agrees_with_all_eigenvalues(monkeypatch):
    columns, bits = table(1500, 20)
    points = whitened(columns)
    whole = relations(points)
    monkeypatch.setattr(module, "DENSE", 0)
    monkeypatch.setattr(module, "BLOCK", 2)  # too few at first
    partial = relations(points)
    assert partial.nullity == whole.nullity == len(bits)
    assert partial.directions @ partial.directions.T == pytest.approx(whole.directions @ whole.directions.T, abs=1e-6)
    assert partial.least == pytest.approx(whole.least, rel=0.3)
