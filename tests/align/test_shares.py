"""Shares of an id cancel if every feature party holds it, and not otherwise."""

import numpy as np
import pytest

from cutlayer.align.shares import CONTEXT, shares
from cutlayer.crypto.key_pair import KeyPair

SALT = b"sixteen byte salt"


def seeds_of(names):
    keys = {name: KeyPair(name, extra="net") for name in names}
    publics = {name: pair.public for name, pair in keys.items()}
    return [
        pair.agree({peer: public for peer, public in publics.items() if peer != name}, CONTEXT, SALT).values()
        for name, pair in keys.items()
    ]


@pytest.mark.parametrize("count", [2, 3, 5])
def test_shares_of_all_cancel_and_no_fewer_do(count):
    names = [f"p{i}" for i in range(count)]
    ids = [b"a", b"b", "é".encode()]
    each = [shares(ids, seeds) for seeds in seeds_of(names)]
    assert not np.bitwise_xor.reduce(each).any()
    for left_out in range(count):
        rest = [share for i, share in enumerate(each) if i != left_out]
        assert np.bitwise_xor.reduce(rest).any(axis=1).all()
