import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

from cutlayer.blocks.sparse import SparseRows
from cutlayer.crypto import PlainRows, Ring
from cutlayer.errors import ConfigError, DataError


@pytest.mark.parametrize("bits", [8, 40, 48, 56])
def test_encoding_rounds_to_the_nearest_fixed_point_number(bits):
    ring = Ring(bits, fraction=4)
    values = np.array([[0.0, 1.0, -1.0], [0.03, -0.04, 7.9375]])
    assert ring.decode(ring.encode(values)).tolist() == [[0, 1, -1], [0, -0.0625, 7.9375]]


def test_tensors_encode_as_arrays_do():
    ring = Ring()
    values = torch.randn(5, 3, dtype=torch.float64, requires_grad=True)
    assert np.array_equal(ring.encode(values), ring.encode(values.detach().numpy()))


def test_a_product_has_twice_the_fraction():
    ring = Ring(40, fraction=10)
    left, right = np.array([[1.5, -2.25]]), np.array([[4.0], [0.5]])
    product = ring.matmul(ring.encode(left), ring.encode(right))
    assert ring.decode(product, fraction=20).tolist() == [[4.875]]


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 9), st.integers(1, 40), st.integers(1, 9), st.sampled_from([8, 33, 40, 48, 56]), st.integers(0, 99)
)
def test_products_are_exact_modulo_t(rows, inner, columns, bits, seed):
    ring, rng = Ring(bits, fraction=0), np.random.default_rng(seed)
    left, right = (rng.integers(0, ring.modulus, shape) for shape in ((rows, inner), (inner, columns)))
    exact = (left.astype(object) @ right.astype(object)) % ring.modulus
    assert np.array_equal(ring.matmul(left, right), exact.astype(np.int64))


def test_sums_and_differences_wrap_round():
    ring = Ring(8, fraction=0)
    left, right = np.array([[250, 3]]), np.array([[10, 5]])
    assert ring.add(left, right).tolist() == [[4, 8]]
    assert ring.subtract(left, right).tolist() == [[240, 254]]
    assert ring.sum([left, right, right]).tolist() == [[14, 13]]
    with pytest.raises(DataError, match="one shape"):
        ring.sum([left, right.T])
    with pytest.raises(DataError):
        ring.sum([])


def test_numbers_that_do_not_fit_are_named_by_column_and_count_but_not_shown():
    ring, values = Ring(16, fraction=8), np.zeros((6, 4))
    values[1, 2], values[4, 2], values[0, 3], values[5, 1] = 1234.5, -999.0, np.nan, 127.0
    with pytest.raises(DataError) as error:
        ring.encode(values)
    assert str(error.value).startswith("Column 2 has 2 rows outside") and "1 more" in str(error.value)
    assert "1234" not in str(error.value) and "999" not in str(error.value)


def test_the_range_is_exact_at_its_ends():
    ring = Ring(8, fraction=0)
    assert ring.encode(np.array([[-128.0, 127.0]])).tolist() == [[128, 127]]
    for outside in (128.0, -129.0, np.inf):
        with pytest.raises(DataError):
            ring.encode(np.array([[outside]]))


def test_sparse_rows_encode_to_the_same_product():
    ring, rng = Ring(), np.random.default_rng(0)
    dense = rng.normal(size=(7, 30)) * (rng.random((7, 30)) < 0.1)
    sparse = SparseRows.from_scipy(__import__("scipy.sparse").sparse.csr_matrix(dense))
    plain, matrix = ring.encode_rows(sparse), ring.uniform((30, 4))
    assert plain.whole is None and len(plain.values) == np.count_nonzero(dense)
    assert np.array_equal(ring.matmul(plain, matrix), ring.matmul(ring.encode(dense.astype(np.float32)), matrix))
    assert [chunk.shape for chunk in plain.chunks(3)] == [(3, 30), (3, 30), (1, 30)]


def test_sparse_numbers_that_do_not_fit_are_refused():
    sparse = SparseRows(torch.tensor([0, 1, 2]), torch.tensor([5, 5]), torch.tensor([1e9, -1e9]), 8)
    with pytest.raises(DataError, match="Column 5 has 2 rows"):
        Ring().encode_rows(sparse)


@pytest.mark.parametrize(
    "rows, columns", [([0, 3], [0, 0]), ([0, -1], [0, 0]), ([0, 1], [0, 4]), ([1, 1], [2, 2]), ([0], [0, 1])]
)
def test_plain_rows_refuse_bad_indices(rows, columns):
    with pytest.raises(DataError):
        PlainRows((3, 4), np.array(rows), np.array(columns), np.array([1, 2]))


def test_plain_rows_show_no_values():
    assert "77777" not in repr(PlainRows.dense(np.array([[77777]])))


def test_masks_are_uniform():
    ring = Ring(40)
    draws = ring.uniform((1_000_000,))
    assert draws.min() >= 0 and draws.max() < ring.modulus
    for shift in range(0, 40, 8):  # every byte of the residue
        counts = np.bincount((draws >> shift) & 255, minlength=256)
        statistic = ((counts - draws.size / 256) ** 2 / (draws.size / 256)).sum()
        assert 1e-7 < chi2.sf(statistic, 255) < 1 - 1e-7


def test_masks_are_fresh():
    ring = Ring()
    assert not np.array_equal(ring.uniform((4, 4)), ring.uniform((4, 4)))


def test_bounds_of_a_product_are_checked_before_it_is_made():
    Ring(40, fraction=14).check_product(terms=32, left=8, right=0.5)
    with pytest.raises(ConfigError, match="smaller fraction"):
        Ring(40, fraction=16).check_product(terms=400, left=100, right=1)


def test_bad_rings_and_residues_are_refused():
    for arguments in ({"bits": 7}, {"bits": 57}, {"fraction": -1}, {"bits": 16, "fraction": 16}):
        with pytest.raises(ConfigError):
            Ring(**arguments)
    ring = Ring()
    for bad in (np.zeros(3, np.int64), np.zeros((2, 2)), np.array([[-1]]), np.array([[1 << 40]])):
        with pytest.raises(DataError):
            ring.check(bad)
    with pytest.raises(DataError, match="encode them first"):
        ring.check_rows(PlainRows.dense(np.array([[1 << 39]])))
