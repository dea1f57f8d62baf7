import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cutlayer.errors import ConfigError, DataError
from cutlayer.horizontal import dirichlet, evenly
from tests.helpers.toy import rng


@settings(deadline=None)
@given(st.integers(1, 9), st.integers(9, 60), st.floats(0.05, 50), st.integers(0, 99))
def test_every_row_goes_to_one_client(clients, rows, alpha, seed):
    numbers = torch.arange(rows) * 3
    labels = torch.arange(rows) % 4
    even = evenly(numbers, clients, rng(seed))
    assert max(map(len, even)) - min(map(len, even)) <= 1
    try:
        mixed = dirichlet(numbers, labels, clients, alpha, rng(seed))
    except DataError:
        mixed = even  # too few rows for so uneven a draw: refused
    for parts in (even, mixed):
        assert torch.equal(torch.cat(parts).sort().values, numbers)
        assert all(len(part) for part in parts)


def test_a_small_alpha_gives_clients_few_classes_and_a_large_one_all():
    rows, labels = torch.arange(10_000), torch.arange(10_000) % 10

    def largest(alpha):
        parts = dirichlet(rows, labels, 10, alpha, rng())
        return sum(torch.bincount(labels[part], minlength=10).max() / len(part) for part in parts) / 10

    assert largest(0.05) > 0.5 and largest(1000.0) < 0.13


def test_wrong_numbers_are_named():
    with pytest.raises(DataError, match="one row for each of 5 clients"):
        evenly(torch.arange(3), 5, rng())
    with pytest.raises(ConfigError, match="alpha"):
        dirichlet(torch.arange(9), torch.zeros(9), 2, 0.0, rng())
    with pytest.raises(ConfigError, match="clients"):
        evenly(torch.arange(3), 0, rng())
