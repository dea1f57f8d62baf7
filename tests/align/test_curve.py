"""Blinding is undone exactly, the twist is never met, cores do not matter; checked with a ladder of our own."""

from hashlib import sha512

import gmpy2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cutlayer.align import curve, kernel
from cutlayer.align.curve import Curve, draw_blind, draw_key, inverse
from cutlayer.blocks import cores
from cutlayer.crypto import needs
from cutlayer.errors import ConfigError, ProtocolError, RunError
from tests.helpers.alignment import SALT
from tests.helpers.montgomery import L, P, ladder, number, on_curve


def hashed(*names):
    return [number(point) for point in kernel.hash_to_points(names, SALT)]


def test_the_first_hash_on_the_curve_is_taken():
    start = kernel.DOMAIN + (16).to_bytes(4, "little") + SALT
    for name in (b"a", b"b", b"c", b"", b"\xff" * 100):
        tries = (number(sha512(start + i.to_bytes(4, "little") + name).digest()) % P for i in range(99))
        assert hashed(name) == [next(u for u in tries if on_curve(u))]


def test_ids_go_to_the_curve_and_never_to_its_twist():
    points = hashed(*(str(i).encode() for i in range(500)))
    assert all(on_curve(u) for u in points) and len(set(points)) == 500


def test_small_points_are_the_five_of_order_1_to_8():
    assert all(ladder(8, u) in (None, 0) for u in kernel.SMALL)  # u = 0 is the point of order two
    assert len(set(kernel.SMALL)) == 5


def test_the_constants():
    assert gmpy2.is_prime(P) and gmpy2.is_prime(L) and 8 * L > 1 << 255
    base = 9
    assert ladder(L, base) is None  # the base point has order L


@settings(max_examples=25)
@given(st.binary(max_size=20))
def test_unblinding_gives_what_the_holder_of_the_key_computes_alone(name):
    points = Curve(SALT, 1)
    (blind, undo), key = draw_blind(), draw_key()
    asked = points.of_ids([name], blind)
    opened = points.multiply(points.multiply(asked, key, "x"), undo, "x")
    assert opened.tobytes() == points.of_ids([name], key).tobytes()


def test_both_equal_the_formula_also_where_a_point_has_a_part_of_small_order():
    points = hashed(*(str(i).encode() for i in range(40)))
    mixed = [u for u in points if ladder(L, u) is not None]
    assert 0 < len(mixed) < 40  # seven of eight points have one
    key, (blind, undo) = draw_key(), draw_blind()
    for u in points[:8]:
        prime = ladder(8 * pow(8, -1, L), u)  # P0: u without its part of small order
        alone = number(kernel.multiply([u.to_bytes(32, "little")], key))
        assert alone == ladder(number(key), u) == ladder(number(key) % L, prime)
        back = kernel.multiply([kernel.multiply([kernel.multiply([u.to_bytes(32, "little")], blind)], key)], undo)
        assert number(back) == alone


def test_scalars_are_clamped_and_inverse_modulo_the_order():
    count = 0
    for _ in range(200):
        key = draw_key()
        assert number(key) % 8 == 0 and number(key) >> 254 == 1
        undo = inverse(key)
        if undo is not None:
            count += 1
            assert number(undo) % 8 == 0 and number(undo) >> 254 == 1 and number(key) * number(undo) % L == 1
    assert 60 < count < 140  # about half of them have one
    assert len({draw_blind() for _ in range(20)}) == 20


def test_results_do_not_depend_on_processes(monkeypatch):
    monkeypatch.setattr(curve, "ALONE", 10)
    monkeypatch.setattr(curve, "MOST_AT_ONCE", 30)
    names, key = [str(i).encode() * (i % 4) for i in range(100)], draw_key()
    first, second = Curve(SALT, 1).of_ids(names, key), Curve(SALT, 2).of_ids(names, key)
    assert np.array_equal(first, second)
    assert np.array_equal(Curve(SALT, 1).multiply(first, key, "x"), Curve(SALT, 3).multiply(first, key, "x"))


@pytest.mark.parametrize(("bad", "processes"), [*((u, 1) for u in kernel.SMALL), (0, 2)])
def test_small_points_are_refused(bad, processes, monkeypatch):
    monkeypatch.setattr(curve, "ALONE", 1)
    points = np.frombuffer((9).to_bytes(32, "little") + bad.to_bytes(32, "little"), np.uint8).reshape(2, 32)
    with pytest.raises(ProtocolError, match=r"^Expected proper points from shop, got one of small order\.$"):
        Curve(SALT, processes).multiply(points, draw_key(), "shop")


def test_a_process_that_dies_is_reported(monkeypatch):
    monkeypatch.setattr(curve, "ALONE", 1)
    monkeypatch.setattr(cores, "__file__", "missing.py")
    with pytest.raises(RunError, match=r"ended with code 2; try processes=1"):
        Curve(SALT, 2).of_ids([b"a", b"b"], draw_key())


@pytest.mark.parametrize("salt", [b"", b"short", b"x" * 65])
def test_a_salt_of_another_length(salt):
    with pytest.raises(ConfigError, match=f"salt of 16 to 64 bytes, got {len(salt)}"):
        Curve(salt)


def test_a_salt_changes_every_point_and_no_processes_is_refused():
    key = draw_key()
    assert not np.array_equal(Curve(SALT, 1).of_ids([b"a"], key), Curve(b"x" * 16, 1).of_ids([b"a"], key))
    with pytest.raises(ConfigError, match="processes=0"):
        Curve(SALT, 0)


def test_without_the_extra_one_sentence_says_what_to_install(monkeypatch):
    def refuse(name):
        raise ImportError(name)

    needs.load.cache_clear()
    monkeypatch.setattr(needs, "import_module", refuse)
    with pytest.raises(ConfigError, match=r"'gmpy2', which is not installed: pip install 'cutlayer\[net\]'\.$"):
        Curve(SALT)
