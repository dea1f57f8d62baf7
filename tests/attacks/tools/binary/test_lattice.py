import importlib

import numpy as np
import pytest

from cutlayer.attacks.tools.binary.lattice import _whole, integer_columns
from cutlayer.attacks.tools.binary.recover import recover_binary
from cutlayer.attacks.tools.binary.span import span_of
from cutlayer.errors import ConfigError
from tests.helpers.binary_tables import exact, sent, table


def test_only_columns_that_are_integers_on_every_row_are_kept():
    implied = np.array([[1.0, 0], [0, 1], [1, 1], [0.5, 0.5]])
    assert _whole(np.array([[1.0, 1], [1, 0], [2, 4], [0, 0]]), implied).T.tolist() == [[1, 1, 2, 1], [2, 4, 6, 3]]


def test_without_the_package_it_says_what_to_install(monkeypatch):
    def absent(name):
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", absent)
    with pytest.raises(ConfigError, match="pip install fpylll"):
        recover_binary(sent(table(60, 10)[0]), method="lattice")


def test_large_ranks_are_refused():
    with pytest.raises(ConfigError, match="rank=100"):
        recover_binary(np.random.default_rng(0).standard_normal((200, 100)), method="lattice")


def test_a_lattice_needs_few_rows():
    columns, bits = table(90, 25)
    recovery = recover_binary(sent(columns), method="lattice")
    assert exact(recovery.columns, bits) == 5 and recovery.certified is None and recovery.method == "lattice"


def test_small_integers_are_found_too():
    rng = np.random.default_rng(0)
    columns = np.column_stack([rng.integers(0, 6, (60, 2)), rng.standard_normal((60, 8))])
    integers = integer_columns(span_of(sent(columns), centred=True), rng)
    truth = np.column_stack([integers, np.ones(60)])
    rest = columns[:, :2] - truth @ np.linalg.lstsq(truth, columns[:, :2], rcond=None)[0]
    assert np.abs(rest).max() < 1e-6
