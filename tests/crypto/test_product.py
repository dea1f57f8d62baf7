"""rows @ [matrix] + mask modulo t, with both backends, against big integers."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cutlayer.blocks.sparse import SparseRows
from cutlayer.crypto import Bfv, Paillier, PlainRows, Ring
from cutlayer.crypto import context as context_module
from cutlayer.crypto.context import context_of
from cutlayer.crypto.envelope import MatrixSource
from cutlayer.errors import ConfigError, DataError, ProtocolError
from tests.helpers.ciphers import draw, reference, scheme_of


def round_trip(secret, rows, matrix, mask, for_rows=0):
    """Everything crosses as bytes, as between two machines."""
    public = scheme_of(secret).read_key(secret.public.to_bytes())
    operand = public.read_operand(secret.encrypt(matrix, for_rows).to_bytes(), matrix.shape, for_rows)
    reply = public.masked_product(rows, operand, mask).to_bytes()
    return secret.decrypt(secret.public.read_result(reply, rows.shape[0], matrix.shape, for_rows))


def check(secret, shape, magnitude, seed):
    ring, (rows, inner, columns) = secret.public.ring, shape
    x, matrix, mask = (
        draw(ring, (rows, inner), magnitude, seed),
        ring.uniform((inner, columns)),
        ring.uniform((rows, columns)),
    )
    assert np.array_equal(round_trip(secret, x, matrix, mask), reference(x, matrix, mask, ring))


SHAPES = [(1, 1, 1), (256, 3, 64), (5, 2, 8192), (2, 3, 8193), (3, 2, 5000), (130, 2, 64), (8192, 2, 1), (9, 4, 33)]


@pytest.mark.parametrize("shape", SHAPES)
def test_bfv_is_exact_at_the_edges_of_its_packing(bfv, bfv_wide, bfv_widest, shape):
    check(bfv, shape, 2**20, 0)
    check(bfv_wide, shape, 2**24, 1)
    check(bfv_widest, shape, 2**14, 2)


@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 5, 7), (2, 33, 4), (4, 1, 3)])
def test_paillier_is_exact_at_the_edges_of_its_slots(paillier, paillier_wide, shape):
    check(paillier, shape, 2**39 - 1, 0)
    check(paillier_wide, shape, 2**20, 1)


shapes = st.tuples(st.integers(1, 40), st.integers(1, 6), st.integers(1, 300))
magnitudes = st.integers(0, 39).map(lambda bits: 2**bits - 1)
lenient = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@lenient
@given(shape=shapes, magnitude=magnitudes, seed=st.integers(0, 999))
def test_bfv_is_exact_for_any_shape_and_size(bfv, shape, magnitude, seed):
    check(bfv, shape, magnitude, seed)


@lenient
@given(
    shape=st.tuples(st.integers(1, 4), st.integers(1, 6), st.integers(1, 9)),
    magnitude=magnitudes,
    seed=st.integers(0, 999),
)
def test_paillier_is_exact_for_any_shape_and_size(paillier, shape, magnitude, seed):
    check(paillier, shape, magnitude, seed)


def test_the_extreme_residues_are_exact(secret):
    ring = secret.public.ring
    low, top = ring.modulus >> 1, ring.modulus - 1
    matrix = np.array([[low, low - 1, 0], [top, 1, low]])
    x = np.array([[1, top], [0, 0], [top, 3]])
    mask = np.array([[0, top, low], [0, 0, top], [1, 1, 1]])
    assert np.array_equal(round_trip(secret, x, matrix, mask), reference(x, matrix, mask, ring))


def test_full_size_keys_work():
    check(Paillier(Ring(40)).generate(), (2, 2, 23), 2**20, 0)


def test_an_encrypted_matrix_decrypts(secret):
    matrix = secret.public.ring.uniform((3, 50))
    assert np.array_equal(secret.decrypt(secret.encrypt(matrix)), matrix)


def test_encryption_is_randomised(secret):
    matrix = np.zeros((1, 1), np.int64)
    assert secret.encrypt(matrix).to_bytes() != secret.encrypt(matrix).to_bytes()


def sparse_batch(rows, columns, density, seed):
    return SparseRows.from_scipy(scipy.sparse.random(rows, columns, density, format="csr", random_state=seed))


def test_sparse_rows_give_the_same_product(secret):
    ring, batch = secret.public.ring, sparse_batch(6, 20, 0.1, 0)
    plain, matrix, mask = ring.encode_rows(batch), ring.uniform((20, 5)), ring.uniform((6, 5))
    dense = ring.encode(batch.to_dense())
    assert np.array_equal(round_trip(secret, plain, matrix, mask), reference(dense, matrix, mask, ring))


def test_only_columns_that_are_present_are_multiplied(bfv, paillier):
    for secret in (bfv, paillier):
        ring = secret.public.ring
        operand = secret.encrypt(ring.uniform((40, 2)))
        broken = [None] * len(operand.parts)
        broken[7] = operand.parts[7]  # touching any other column would fail
        operand = replace(operand, parts=tuple(broken))
        rows = PlainRows((3, 40), np.array([2]), np.array([7]), np.array([-5]))
        secret.public.masked_product(rows, operand, ring.uniform((3, 2)))


@pytest.mark.parametrize("group, columns", [(2, 64), (4, 100), (8, 1000), (64, 128)])
def test_rows_that_share_a_ciphertext_give_the_same_product(bfv, monkeypatch, group, columns):
    """Wide tables: 66 rows in fewer ciphertexts, with what falls between the results masked."""
    ring = bfv.public.ring
    monkeypatch.setattr(context_module, "BFV_OPERAND_CIPHERTEXTS", -(-66 // group))
    packing = context_of(40).packing(MatrixSource(66, columns))
    assert packing.group == group and packing.capacity == 8192 // (group * columns)
    x, matrix, mask = draw(ring, (5, 66), 2**20, 0), ring.uniform((66, columns)), ring.uniform((5, columns))
    assert np.array_equal(round_trip(bfv, x, matrix, mask), reference(x, matrix, mask, ring))
    assert np.array_equal(bfv.decrypt(bfv.encrypt(matrix)), matrix)


def test_a_matrix_for_one_batch_gives_the_same_product(secret):
    ring = secret.public.ring
    x, matrix, mask = draw(ring, (5, 8), 2**12, 0), ring.uniform((8, 30)), ring.uniform((5, 30))
    assert np.array_equal(round_trip(secret, x, matrix, mask, for_rows=5), reference(x, matrix, mask, ring))


def test_a_matrix_for_one_batch_is_packed_for_the_least_traffic(bfv):
    """As in an encrypted layer: the activations of 256 rows, anew for every batch, times 16x16 weights."""
    ring, sizes = bfv.public.ring, {}
    x, matrix, mask = draw(ring, (16, 16), 2**12, 0), ring.uniform((16, 256)), ring.uniform((16, 256))
    for wanted in (0, 16):
        operand = bfv.encrypt(matrix, wanted)
        sizes[wanted] = len(operand.to_bytes()) + len(bfv.public.masked_product(x, operand, mask).to_bytes())
    assert sizes[16] < sizes[0] / 2


@pytest.mark.parametrize("source, group", [((64, 256, 64), 8), ((64, 256, 0), 1), ((87_000, 256, 0), 32)])
def test_groups_for_layers_and_text(source, group):
    assert context_of(40).packing(MatrixSource(*source)).group == group


def test_what_falls_between_the_results_is_masked(bfv, monkeypatch):
    """There the product of one row's numbers with another's appears: twice the same product shows other numbers."""
    ring = bfv.public.ring
    monkeypatch.setattr(context_module, "BFV_OPERAND_CIPHERTEXTS", 1)
    operand, x, mask = bfv.encrypt(ring.uniform((4, 64))), draw(ring, (3, 4), 2**20, 0), ring.uniform((3, 64))
    packing = context_of(40).packing(MatrixSource(4, 64))
    first, second = (bfv._coefficients(bfv.public.masked_product(x, operand, mask).parts[0]) for _ in range(2))
    ((_, _, places),) = packing.chunks(3)
    assert packing.group == 4 and np.array_equal(first[places], second[places])
    between = np.setdiff1d(np.arange(8192), places)
    assert (first[between] != second[between]).all()


def test_a_matrix_beyond_all_bounds_is_refused():
    with pytest.raises(ConfigError, match="fits"):
        context_of(40).packing(MatrixSource(1 << 24, 8192))


@pytest.mark.parametrize("name, budget, size", [("bfv", 4, 24), ("bfv_wide", 2, 24), ("bfv_widest", 1, 19)])
def test_decryption_has_room_left_after_the_flood(name, budget, size, request):
    """Bits of noise budget after re-randomising, flooding and modulus switches: results are exact, not lucky."""
    secret = request.getfixturevalue(name)
    ring = secret.public.ring
    operand = secret.encrypt(ring.uniform((8, 64)))
    result = secret.public.masked_product(draw(ring, (128, 8), 2**size, 0), operand, ring.uniform((128, 64)))
    assert secret.noise_budget(result) >= budget


def test_rows_too_large_to_drown_are_refused(bfv_wide):
    ring = bfv_wide.public.ring
    rows = np.full((128, 2), (ring.modulus >> 1) - 1)
    with pytest.raises(DataError, match="drown"):
        bfv_wide.public.masked_product(rows, bfv_wide.encrypt(ring.uniform((2, 64))), ring.uniform((128, 64)))


def test_shapes_that_do_not_meet_are_refused(secret):
    ring, public = secret.public.ring, secret.public
    operand = secret.encrypt(ring.uniform((3, 2)))
    for rows, mask in (((4, 2), (4, 2)), ((4, 3), (4, 3)), ((4, 3), (3, 2)), ((0, 3), (0, 2))):
        with pytest.raises(DataError):
            public.masked_product(ring.uniform(rows), operand, ring.uniform(mask))
    with pytest.raises(DataError):
        secret.encrypt(np.zeros((0, 2), np.int64))
    result = public.masked_product(np.zeros((1, 3), np.int64), operand, ring.uniform((1, 2)))
    with pytest.raises(ProtocolError, match="got a result"):
        public.masked_product(np.zeros((1, 1), np.int64), result, ring.uniform((1, 2)))


def test_weak_keys_and_rings_are_refused():
    for bits in (1024, 2048, 3071):
        with pytest.raises(ConfigError, match="128-bit"):
            Paillier(Ring(), bits)
    with pytest.raises(ConfigError):
        Paillier(Ring(), 256, for_tests=True)
    with pytest.raises(ConfigError, match="40, 48, 56"):
        Bfv(Ring(41))
    with pytest.raises(ConfigError, match="more than"):
        Paillier(Ring(56), 512, for_tests=True).generate().public.slots(2**400)
