import lzma

import numpy as np
import pytest
import torch

from cutlayer.data import ColumnKind, criteo
from cutlayer.data.sets.criteo import fill_back, fold_rare
from cutlayer.errors import ConfigError, DataError


@pytest.fixture
def sample(put):
    """120 rows, a third of them clicks; I1 and C22 are missing in every other row."""
    rng = np.random.default_rng(0)
    lines = []
    for i in range(120):
        counts = ["" if i % 2 else str(i)] + [str(n) for n in rng.integers(0, 50, 12)]
        levels = [f"{n:08x}" for n in rng.integers(0, 4, 26)]
        levels[21] = "" if i % 2 else levels[21]
        lines.append("\t".join([str(int(i % 3 == 0)), *counts, *levels]))
    put("criteo/criteo_sample_137139.txt.xz", lzma.compress(("\n".join(lines) + "\n").encode()))


def test_a_file_cut_short_is_refused(sample):
    with pytest.raises(DataError, match="Expected 137139 rows and 39 columns for criteo, got 120 rows and 39"):
        criteo()


def test_hashvfl_keeps_25_columns_with_unscaled_codes(sample, any_size):
    task = criteo(smote="none")
    names = [column.name for part in task.features.values() for column in part.columns]
    assert len(names) == 25 and names[12:15] == ["I13", "C1", "C2"]
    assert len(task.labels) == 119  # the last row has no I1 below it
    assert float(task.features["party1"].values.max()) == 1 and float(task.features["party2"].values.max()) == 3
    balanced = criteo()
    assert torch.bincount(balanced.labels).tolist() == [79, 79] and len(balanced.test) == round(0.3 * 158)


def test_vflrecon_balances_39_columns_between_minus_1_and_1(sample, any_size):
    task = criteo(preparation="vflrecon")
    assert torch.bincount(task.labels).tolist() == [40, 40]
    both = torch.cat([part.values for part in task.features.values()], dim=1)
    assert both.shape == (80, 39) and float(both.min()) == -1 and float(both.max()) == 1


def test_dcn_halves_counts_and_codes(sample, any_size):
    task = criteo(preparation="dcn")
    first, second = task.features.values()
    assert [len(first.columns), len(second.columns)] == [7 + 13, 6 + 13]
    assert first.columns[0].kind is ColumnKind.NUMERIC and first.columns[7].kind is ColumnKind.CATEGORICAL
    assert len(task.test) == 20
    for part in task.features.values():
        for number, column in enumerate(part.columns):
            if column.kind is ColumnKind.CATEGORICAL:
                codes = part.values[:, number]
                assert torch.equal(codes, codes.round()) and float(codes.max()) < column.levels


def test_dcn_can_thin_the_clicks_out(sample, any_size):
    task = criteo(preparation="dcn", imbalance=16)
    assert torch.bincount(task.labels).tolist() == [80, 5]
    with pytest.raises(ConfigError, match="Expected imbalance=0"):
        criteo(preparation="dcn", imbalance=0)


def test_options_are_closed_sets(folder):
    with pytest.raises(ConfigError, match=r"Unknown preparation 'hash'.*hashvfl, vflrecon, dcn"):
        criteo(preparation="hash")


def test_missing_cells_take_the_next_value():
    filled, present = fill_back(np.array(["", "a", "", "", "b", ""]))
    assert filled[:5].tolist() == ["a", "a", "b", "b", "b"]
    assert present.tolist() == [True] * 5 + [False]


def test_rare_and_missing_levels_share_number_0():
    column = np.array(["a", "a", "b", "", "c", "c", ""])
    coded, levels = fold_rare(column, train=np.arange(6), least=2)
    assert coded.tolist() == [1, 1, 0, 0, 2, 2, 0] and levels == 3
