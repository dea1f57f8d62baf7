"""An attacker, or a careless export, makes a dump that an older search proved empty, although columns are in it."""

from itertools import product

import numpy as np
import pytest
import torch

from cutlayer.attacks.tools.binary.recover import recover_binary
from cutlayer.attacks.tools.binary.span import pivot_rows

ROWS, BINARY = 1_000, 2


def former(messages):
    """The former rule, frozen: how many 0/1 columns, and whether that was called proved.

    The rank ends at the largest drop of the singular values, of a thousand or more; that what is dropped is
    rounding was concluded from the same drop, or taken for float32 where nothing is dropped.
    """
    centred = messages.astype(float) - messages.astype(float).mean(axis=0)
    left, values, _ = np.linalg.svd(centred, full_matrices=False)
    drops = values[:-1] / values[1:]
    rank = int(drops.argmax()) + 1 if drops.max() >= 1e3 else len(values)
    rounding = (values[rank] if rank < len(values) else 6e-8 * values[0]) / values[rank - 1]
    basis = np.column_stack([np.full(ROWS, ROWS**-0.5), left[:, :rank]])
    bits = np.array(list(product((0, 1), repeat=rank))).T[:, 1:]  # one of two complements, not the constant
    implied = np.linalg.solve(basis[pivot_rows(basis)].T, basis.T).T[:, 1:] @ bits
    near = (implied[:, (np.abs(np.abs(implied - 0.5) - 0.5) <= 1e-2).all(axis=0)] > 0.5).astype(float)
    near -= near.mean(axis=0)
    rest = ((near - left[:, :rank] @ (left[:, :rank].T @ near)) ** 2).sum(axis=0)
    return int((rest < 1e-6 * (near**2).sum(axis=0)).sum()), bool(rounding < 1e-4)


def dump(width, scale=1.0):
    """Two two-valued columns beside four others, under a random layer."""
    rng = np.random.default_rng(0)
    columns = np.column_stack([rng.random((ROWS, BINARY)) < 0.4, scale * rng.standard_normal((ROWS, 4))])
    return columns @ rng.standard_normal((6, width))


DUMPS = {
    "large numbers": dump(12, scale=1e4).astype(np.float32),
    "float16": torch.from_numpy(dump(6, scale=10)).half().float().numpy(),
    "bfloat16": torch.from_numpy(dump(6)).bfloat16().float().numpy(),
    "one decimal": dump(6).round(1),
    "two decimals": dump(6).round(2),
    "small noise": dump(8) + np.random.default_rng(1).normal(0, 0.05, (ROWS, 8)),
}


@pytest.mark.parametrize("name", DUMPS)
def test_the_former_rule_proved_what_is_false_and_ours_does_not(name):
    found, proved = former(DUMPS[name])
    assert proved and found < BINARY
    ours = recover_binary(DUMPS[name])
    assert ours.certified is None or len(ours.columns) == BINARY


def test_both_prove_what_is_true():
    """So the rule that is broken above is not one that proves everything, nor ours one that proves nothing."""
    clean = dump(12).astype(np.float32)
    ours = recover_binary(clean)
    assert former(clean) == (BINARY, True) and ours.certified and len(ours.columns) == BINARY
