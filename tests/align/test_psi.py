"""Alignment gives the intersection in one order, and the leader sees nothing of partial ones."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cutlayer.align import curve, follow, lead, okvs, psi, read_ids
from cutlayer.align.payload import MOST_IDS
from cutlayer.cut import Roster
from cutlayer.errors import ConfigError, DataError
from cutlayer.message import Kind
from cutlayer.session import exchange
from tests.helpers.alignment import BATCH, SALT, align, roster, talks
from tests.helpers.montgomery import L, ladder, number, on_curve

NAMES = ["bank", "shop", "clinic", "gym", "club"]


def columns_of(count):
    return st.tuples(*[st.lists(st.integers(0, 12), unique=True, max_size=12)] * count)


def check(columns):
    common, rows = align(columns)
    wanted = set.intersection(*map(set, columns.values()))
    first = common["bank"]
    assert set(first) == wanted and len(first) == len(wanted)
    assert all(order == first for order in common.values())
    assert all(each.dtype is torch.int64 for each in rows.values())


@settings(max_examples=40)
@given(columns_of(2))
def test_two_parties_find_the_intersection(columns):
    check(dict(zip(NAMES, columns, strict=False)))


@settings(max_examples=25)
@given(columns_of(3))
def test_three_parties_find_the_intersection(columns):
    check(dict(zip(NAMES, columns, strict=False)))


@settings(max_examples=12)
@given(columns_of(5))
def test_five_parties_find_the_intersection(columns):
    check(dict(zip(NAMES, columns, strict=False)))


@settings(max_examples=25)
@given(st.lists(st.lists(st.text("aAﬁßé e\u0301\u200b", max_size=4), max_size=8), min_size=2, max_size=3))
def test_unicode_repeats_and_empty_ids_meet_as_their_spellings_do(lists):
    columns = dict(zip(NAMES, lists, strict=False))
    ids = {name: read_ids(column, keep_first=True).values for name, column in columns.items()}
    common, _ = align(columns, keep_first=True)
    for column in common.values():
        assert set(read_ids(column).values) == set.intersection(*map(set, ids.values()))
        assert read_ids(column).values == read_ids(common["bank"]).values


@pytest.mark.parametrize("count", [2, 3])
def test_a_thousand_ids_on_two_cores(count, monkeypatch):
    rng = np.random.default_rng(0)
    columns = {name: rng.permutation(1500)[:1000].tolist() for name in NAMES[:count]}
    alone, _ = align(columns, processes=1)
    monkeypatch.setattr(curve, "ALONE", 100)
    shared, _ = align(columns, processes=2)
    assert alone == shared and set(alone["bank"]) == set.intersection(*map(set, columns.values()))


def test_the_order_depends_on_seed_and_common_ids_only():
    columns = {"bank": list(range(40)), "shop": list(range(20, 60))}
    turned = {name: column[::-1] for name, column in columns.items()}
    with_more = {"bank": [*range(100, 130), *columns["bank"]], "shop": columns["shop"], "gym": columns["shop"]}
    first = align(columns)[0]["shop"]
    assert first == align(turned)[0]["shop"] == align(with_more)[0]["shop"]
    assert first != align(columns, seed=4)[0]["shop"] and first != sorted(first)


def test_bytes_each_way_are_those_of_the_docs():
    columns = {"bank": list(range(50)), "shop": list(range(40, 70))}
    seen = []
    align(columns, seen.append)
    assert [(m.sender, m.kind, tuple(m.payload.shape)) for m in seen] == [
        ("bank", Kind.POINTS, (50, 32)),
        ("shop", Kind.POINTS, (30, 16)),
        ("shop", Kind.POINTS, (50, 32)),
        ("bank", Kind.POINTS, (10, 16)),
    ]
    align({**columns, "gym": list(range(45))}, (three := []).append)
    keys = [(m.sender, m.receiver, tuple(m.payload.shape)) for m in three if m.kind is Kind.SETUP]
    assert sorted(keys) == [("gym", "shop", (1, 32)), ("shop", "gym", (1, 32))]
    tables = {m.sender: len(m.payload) for m in three if m.receiver == "bank" and m.payload.shape[1] == 16}
    assert tables == {"shop": okvs.rows_for(30), "gym": okvs.rows_for(45)}  # sizes are revealed


def test_no_two_runs_send_the_same_and_tags_come_sorted():
    columns = {"bank": [1, 2, 3], "shop": [3, 2, 1]}
    first, second = [], []
    align(columns, first.append)
    align(columns, second.append)
    for a, b in zip(first, second, strict=True):
        assert not {bytes(row.tolist()) for row in a.payload} & {bytes(row.tolist()) for row in b.payload}
    tags = [bytes(row.tolist()) for row in first[1].payload]
    assert tags == sorted(tags)


class Spy:
    """What the leader's tables and points show it, by party."""

    def __init__(self, monkeypatch):
        self.shown = []
        real = psi.revealed

        def spy(table, points):
            self.shown.append(real(table, points))
            return self.shown[-1]

        monkeypatch.setattr(psi, "revealed", spy)


def test_the_leader_sees_no_zero_and_nothing_equal_where_only_some_parties_hold_an_id(monkeypatch):
    spy = Spy(monkeypatch)
    ids = list(range(300))
    columns = {"bank": ids, "shop": ids[:200], "clinic": ids[:200], "gym": ids[250:]}  # 0 to 199 in two of three
    common, _ = align(columns)
    assert common["bank"] == [] and len(spy.shown) == 3
    for parties in ((0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)):
        total = np.bitwise_xor.reduce([spy.shown[i] for i in parties])
        assert total.any(axis=1).all() and len(np.unique(total, axis=0)) == 300
        bits = np.unpackbits(total.view(np.uint8))
        assert abs(bits.mean() - 0.5) < 0.015  # 38,400 bits: six standard deviations
    # With two feature parties, one that holds the leader's ids and one that does not look alike.
    spy.shown.clear()
    align({"bank": ids, "shop": ids, "gym": ["other"]})
    for shown in (*spy.shown, spy.shown[0] ^ spy.shown[1]):
        assert shown.any(axis=1).all() and abs(np.unpackbits(shown.view(np.uint8)).mean() - 0.5) < 0.015


def test_points_that_cross_lie_on_the_curve_and_in_the_prime_group():
    seen = []
    align({"bank": list(range(30)), "shop": list(range(30))}, seen.append)
    for message in seen:
        if message.payload.shape[1] == 32:
            points = [number(row.tolist()) for row in message.payload]
            assert all(on_curve(u) for u in points) and ladder(L, points[0]) is None


def test_another_salt_finds_nothing():
    started = talks({"bank": [1, 2], "shop": [1, 2]})
    started["shop"] = follow("shop", read_ids([1, 2]), roster(["bank", "shop"]), BATCH, salt=b"y" * 16)
    assert all(len(rows) == 0 for rows in exchange(started, lambda message: None).values())


def test_who_may_take_part(monkeypatch):
    with pytest.raises(ConfigError, match="at least one feature party"):
        next(lead(read_ids([1]), Roster("bank", ("bank",)), BATCH, salt=SALT, seed=0))
    with pytest.raises(ConfigError, match="one of the feature parties shop, got gym"):
        next(follow("gym", read_ids([1]), roster(["bank", "shop"]), BATCH, salt=SALT))
    assert MOST_IDS == 50_000_000
    monkeypatch.setattr(psi, "MOST_IDS", 1)
    for talk in talks({"bank": [1, 2], "shop": [1, 2]}).values():
        with pytest.raises(DataError, match="at most 1 ids to align, got 2"):
            next(talk)
