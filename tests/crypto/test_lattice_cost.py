"""The script that prices the primal attack on our keys."""

import pytest

from benchmarks.lattice_cost import cheapest, reaches
from cutlayer.crypto.parameters import BFV_DEGREE, BFV_SETS


@pytest.mark.parametrize(("degree", "log_q"), [(4096, 109), (8192, 218), (16384, 438)])
def test_the_largest_moduli_of_the_published_table_cost_128_bits(degree, log_q):
    """homomorphicencryption.org, ternary secrets, classical: the table has 128 bits there, by a finer estimator."""
    assert cheapest(degree, log_q).all_blocks == pytest.approx(128, abs=2.5)


def test_all_our_keys_are_at_least_as_costly_as_the_table_asks():
    for chosen in BFV_SETS.values():
        assert cheapest(BFV_DEGREE, sum(chosen.primes) + chosen.special).all_blocks >= 128


def test_one_block_size_less_does_not_do():
    cost = cheapest(1024, 27)
    assert reaches(cost.block, cost.dimension, 1024, 27)
    assert not any(reaches(cost.block - 1, dimension, 1024, 27) for dimension in range(1026, 3072, 8))
