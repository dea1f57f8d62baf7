"""What crosses is read strictly: everything a peer could get wrong is one sentence, before anything is allocated."""

import ast
import contextlib
import copy
import sys
from pathlib import Path

import gmpy2
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import cutlayer.crypto
from cutlayer.crypto import Bfv, Paillier, Ring
from cutlayer.crypto.envelope import LAYOUT
from cutlayer.errors import ConfigError, ProtocolError
from tests.helpers.ciphers import scheme_of

OF = (2, 3)  # the encrypted matrix


@pytest.fixture
def crossing(secret):
    """(reader, bytes) of the three things that cross."""
    ring, public = secret.public.ring, secret.public
    operand = secret.encrypt(ring.uniform(OF))
    result = public.masked_product(ring.wrap(np.arange(8).reshape(4, 2)), operand, ring.uniform((4, 3)))
    return {
        "key": (scheme_of(secret).read_key, public.to_bytes()),
        "operand": (lambda data: public.read_operand(data, OF), operand.to_bytes()),
        "result": (lambda data: public.read_result(data, 4, OF), result.to_bytes()),
    }


@pytest.mark.parametrize("what", ["key", "operand", "result"])
def test_bytes_round_trip(crossing, what):
    read, data = crossing[what]
    assert read(data).to_bytes() == data and read(memoryview(data)).to_bytes() == data


@pytest.mark.parametrize("what", ["key", "operand", "result"])
def test_every_field_of_the_header_is_checked(crossing, what):
    read, data = crossing[what]
    good = list(LAYOUT.unpack_from(data))
    for field, value in enumerate((b"XXXX", 9, b"p" * 16, b"k" * 16, 77, 77, 77, 77, good[8] + 1)):
        bad = [*good[:field], value, *good[field + 1 :]]
        with pytest.raises(ProtocolError) as error:
            read(LAYOUT.pack(*bad) + data[LAYOUT.size :])
        assert str(error.value).endswith(".") and "\n" not in str(error.value)


@pytest.mark.parametrize("what", ["key", "operand", "result"])
def test_truncated_oversized_and_garbled_bytes_are_refused(crossing, what):
    read, data = crossing[what]
    for bad in (b"", data[:10], data[: LAYOUT.size], data[:-1], data + b"\0", data[LAYOUT.size :], b"\xff" * len(data)):
        with pytest.raises(ProtocolError):
            read(bad)
    with pytest.raises(ProtocolError):  # numbers that are no residues
        read(data[: LAYOUT.size] + b"\xff" * (len(data) - LAYOUT.size))


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_random_damage_never_ends_in_another_error(paillier, data):
    """Either one sentence, or numbers that are wrong: what crosses is authenticated by the channel, not here."""
    public, operand = paillier.public, paillier.encrypt(paillier.public.ring.uniform(OF))
    good = operand.to_bytes()
    at, value = data.draw(st.integers(0, len(good) - 1)), data.draw(st.integers(0, 255))
    damaged = good[:at] + bytes([value]) + good[at + 1 :]
    cut = data.draw(st.integers(0, len(good)))
    for bad in (damaged, damaged[:cut], damaged + good[:cut]):
        with contextlib.suppress(ProtocolError):
            public.read_operand(bad, OF)


def test_one_kind_is_not_taken_for_another(crossing):
    for what, (read, _) in crossing.items():
        for other, (_, data) in crossing.items():
            if other != what:
                with pytest.raises(ProtocolError):
                    read(data)


def test_both_parties_must_mean_the_same_packing(secret):
    data = secret.encrypt(secret.public.ring.uniform(OF), for_rows=5).to_bytes()
    assert secret.public.read_operand(data, OF, for_rows=5).source.for_rows == 5
    for other in (0, 4):
        with pytest.raises(ProtocolError, match="for_rows=5"):
            secret.public.read_operand(data, OF, for_rows=other)


def test_a_huge_declared_length_allocates_nothing(crossing):
    read, data = crossing["operand"]
    fields = list(LAYOUT.unpack_from(data))
    with pytest.raises(ProtocolError, match="the header says"):
        read(LAYOUT.pack(*fields[:-1], 1 << 62) + data[LAYOUT.size :])


def test_a_huge_declared_shape_allocates_nothing(crossing):
    read, data = crossing["operand"]
    fields = list(LAYOUT.unpack_from(data))
    fields[4], fields[5] = 2**32 - 1, 2**32 - 1
    with pytest.raises(ProtocolError, match="shape"):
        read(LAYOUT.pack(*fields) + data[LAYOUT.size :])


def test_another_key_or_other_parameters_are_refused(bfv, bfv_wide, paillier):
    other = Bfv(Ring(40)).generate()
    data = other.encrypt(other.public.ring.uniform(OF)).to_bytes()
    with pytest.raises(ProtocolError, match="under key"):
        bfv.public.read_operand(data, OF)
    with pytest.raises(ProtocolError, match="parameters"):
        bfv_wide.public.read_operand(data, OF)
    with pytest.raises(ProtocolError, match="parameters"):
        paillier.public.read_operand(data, OF)
    operand = other.encrypt(other.public.ring.uniform(OF))
    with pytest.raises(ProtocolError, match="key"):
        bfv.decrypt(operand)
    with pytest.raises(ProtocolError, match="this key"):
        bfv.public.masked_product(np.zeros((1, 2), np.int64), operand, np.zeros((1, 3), np.int64))


def test_a_small_key_is_not_accepted_where_a_large_one_is_expected(paillier):
    with pytest.raises(ProtocolError, match="parameters"):
        Paillier(Ring(40)).read_key(paillier.public.to_bytes())


def test_paillier_refuses_moduli_and_ciphertexts_that_cannot_be(paillier):
    scheme, data = scheme_of(paillier), paillier.public.to_bytes()
    n = int(paillier.public.n)
    for bad in (n - 1, n >> 1, 3 * ((1 << 511) // 3 + 1), n + 1, int(gmpy2.prev_prime(n))):
        with pytest.raises(ProtocolError):
            scheme.read_key(data[: LAYOUT.size] + bad.to_bytes(64, "little"))
    shape = (1, 1)
    header = paillier.encrypt(np.zeros(shape, np.int64)).to_bytes()[: LAYOUT.size]
    for bad in (0, n, n * n, n * n - n):
        with pytest.raises(ProtocolError):
            paillier.public.read_operand(header + bad.to_bytes(128, "little"), shape)


def test_secret_keys_do_not_show_nor_leave(secret, capsys):
    text = f"{secret!r} {secret.public!r} {secret.encrypt(np.ones((1, 1), np.int64))!r}"
    assert len(text) < 400 and secret.public.key_id.hex() in text
    assert not hasattr(secret, "to_bytes")
    with pytest.raises(TypeError, match="never"):
        copy.copy(secret)
    with pytest.raises(TypeError, match="never"):
        copy.deepcopy(secret)


def test_nothing_that_crosses_holds_the_secret(bfv, paillier):
    public, operand = (part.to_bytes() for part in (paillier.public, paillier.encrypt(np.ones((1, 1), np.int64))))
    for prime in (paillier._p, paillier._q):
        assert int(prime).to_bytes(32, "little") not in public + operand
    assert len(bfv.public.to_bytes()) == LAYOUT.size + 2 * 4 * 8192 * 7  # two polynomials, four primes, no third


def test_an_unsanitised_result_never_becomes_bytes(secret):
    ring = secret.public.ring
    operand = secret.encrypt(ring.uniform(OF))
    result = secret.public.masked_product(ring.uniform((1, 2)) & 255, operand, ring.uniform((1, 3)), sanitise=False)
    with pytest.raises(ConfigError, match="not sanitised"):
        result.to_bytes()


def test_a_missing_package_is_one_sentence(monkeypatch):
    from cutlayer.crypto import needs

    needs.load.cache_clear()
    monkeypatch.setitem(sys.modules, "gmpy2", None)
    with pytest.raises(ConfigError, match=r"pip install 'cutlayer\[secure\]'"):
        needs.load("gmpy2")
    needs.load.cache_clear()


def test_optional_packages_are_imported_only_when_used():
    for path in Path(cutlayer.crypto.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            assert not {name.split(".")[0] for name in names} & {"seal", "gmpy2", "cryptography", "phe"}, path
