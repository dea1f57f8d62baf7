"""A party's identity: what it refuses to start with, whom it believes, and what it signs."""

from datetime import timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding

from cutlayer.errors import ConfigError
from cutlayer.net.trust import pem
from cutlayer.net.trust.authority import Authority
from cutlayer.net.trust.identity import CLOCK_TOLERANCE, Identity, Refused
from tests.helpers.certificates import END, NOW, assert_refused, certificate_of, give_list, join


def test_load(bank):
    identity = Identity.load(bank, NOW)
    assert identity.name == "bank" and identity.key_path == bank / "party.key" and identity.revoked == frozenset()
    assert "PrivateKey" not in repr(identity)


def test_expiry_by_an_injected_clock(bank):
    Identity.load(bank, END + CLOCK_TOLERANCE)
    Identity.load(bank, NOW - timedelta(days=1) - CLOCK_TOLERANCE)  # new certificates are backdated by a day
    with pytest.raises(ConfigError, match="expired on 2031-01-01 12:00 UTC"):
        Identity.load(bank, END + CLOCK_TOLERANCE + timedelta(seconds=1))
    with pytest.raises(ConfigError, match="starts on 2029-12-31 12:00 UTC"):
        Identity.load(bank, NOW - timedelta(days=1) - CLOCK_TOLERANCE - timedelta(seconds=1))


@pytest.mark.parametrize("name", ["party.key", "party.pem", "ca.pem"])
def test_missing_damaged_and_huge_files(bank, name):
    path = bank / name
    for damage in (b"", b"hello", path.read_bytes()[:-60], path.read_bytes() + b"\n" * pem.LIMIT):
        path.write_bytes(damage)
        with pytest.raises(ConfigError, match=name):
            Identity.load(bank, NOW)
    path.unlink()
    with pytest.raises(ConfigError, match=f"Expected a file .*{name}"):
        Identity.load(bank, NOW)


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o620])
def test_a_key_that_others_may_read_or_write(bank, mode):
    (bank / "party.key").chmod(mode)
    with pytest.raises(ConfigError, match=f"mode {mode:o}: run chmod 600"):
        Identity.load(bank, NOW)


def test_another_authority_and_another_key(bank, shop, tmp_path):
    other = Authority.create(tmp_path / "other", "ours", now=NOW)
    (bank / "ca.pem").write_bytes((other.folder / "ca.pem").read_bytes())
    with pytest.raises(ConfigError, match="not one that this authority signed"):
        Identity.load(bank, NOW)
    (shop / "party.key").write_bytes((bank / "party.key").read_bytes())
    with pytest.raises(ConfigError, match="do not match"):
        Identity.load(shop, NOW)


def test_revocation_lists_that_cannot_be_believed(authority, bank, tmp_path):
    other = Authority.create(tmp_path / "other", "theirs", now=NOW)
    der = bytearray(x509.load_pem_x509_crl((authority.folder / "crl.pem").read_bytes()).public_bytes(Encoding.DER))
    der[-1] ^= 1
    forged = x509.load_der_x509_crl(bytes(der)).public_bytes(Encoding.PEM)
    for data in (forged, (other.folder / "crl.pem").read_bytes(), b"", b"x" * (pem.LIST_LIMIT + 1)):
        (bank / "crl.pem").write_bytes(data)
        with pytest.raises(ConfigError, match=r"crl\.pem"):
            Identity.load(bank, NOW)


def test_ones_own_certificate_was_revoked(authority, bank):
    authority.revoke("bank", now=NOW)
    Identity.load(bank, NOW)  # nobody told it yet
    give_list(authority, bank)
    with pytest.raises(ConfigError, match="it was revoked; ask your authority"):
        Identity.load(bank, NOW)


def test_a_peer_is_known_by_its_certificate(shared):
    _, bank, shop = shared
    me = Identity.load(bank, NOW)
    assert me.check(certificate_of(shop), "shop") == me.check(certificate_of(shop), None) == "shop"
    assert me.check(x509.load_pem_x509_certificate(certificate_of(shop)).public_bytes(Encoding.DER), "shop") == "shop"
    error = assert_refused(me.check, certificate_of(shop), "bank", reason="it is of shop, not of bank")
    assert isinstance(error, Refused) and error.__cause__ is not None
    assert_refused(
        me.check, (bank / "ca.pem").read_bytes(), None, reason="not one that this authority signed for a party"
    )
    me.now = END + timedelta(hours=1)
    assert_refused(me.check, certificate_of(shop), "shop", reason="expired on")


def test_strangers_with_the_same_names(shared, tmp_path):
    other = Authority.create(tmp_path / "other", "ours", now=NOW)
    stranger = join(other, tmp_path / "shop", "shop", NOW)
    me = Identity.load(shared[1], NOW)
    assert_refused(me.check, certificate_of(stranger), "shop", reason="not one that this authority signed")
    theirs = Identity.load(stranger, NOW)
    assert_refused(
        me.verify, certificate_of(stranger), "shop", b"hello", theirs.sign(b"hello"), reason="not one that this"
    )


def test_statements(shared):
    _, bank, shop = shared
    me, peer = Identity.load(bank, NOW), Identity.load(shop, NOW)
    signature = peer.sign(b"the rows are agreed")
    assert me.verify(certificate_of(shop), "shop", b"the rows are agreed", signature) == "shop"
    wrong = "a statement of shop with a wrong signature"
    assert_refused(me.verify, certificate_of(shop), "shop", b"the rows are not agreed", signature, reason=wrong)
    assert_refused(me.verify, certificate_of(shop), "shop", b"the rows are agreed", signature[:-1], reason=wrong)
    assert_refused(me.verify, certificate_of(shop), "shop", b"the rows are agreed", b"", reason=wrong)
    assert_refused(me.verify, certificate_of(bank), "shop", b"the rows are agreed", signature, reason="it is of bank")
    assert_refused(me.verify, certificate_of(bank), "bank", b"the rows are agreed", signature, reason="wrong signature")
    bare = peer.key.sign(b"the rows are agreed", ec.ECDSA(hashes.SHA256()))  # without the context
    assert_refused(me.verify, certificate_of(shop), "shop", b"the rows are agreed", bare, reason=wrong)


def test_a_running_party_notices_a_revocation(authority, bank, shop):
    me, signature = Identity.load(bank, NOW), Identity.load(shop, NOW).sign(b"hello")
    assert me.check(certificate_of(shop)) == "shop" and not me.refresh()
    give_list(authority, bank)
    assert me.refresh() and not me.refresh() and me.check(certificate_of(shop)) == "shop"
    authority.revoke("shop", now=NOW)
    before = (bank / "crl.pem").read_bytes()
    give_list(authority, bank)
    assert_refused(me.check, certificate_of(shop), "shop", reason="it was revoked")
    assert_refused(me.verify, certificate_of(shop), "shop", b"hello", signature, reason="it was revoked")
    (bank / "crl.pem").write_bytes(before)  # an older list does not bring a party back
    assert_refused(me.check, certificate_of(shop), "shop", reason="older than the one before it")
    (bank / "crl.pem").unlink()  # nor does none
    assert_refused(me.check, certificate_of(shop), "shop", reason="Expected a file")
    (bank / "crl.pem").write_bytes(b"half of a")
    assert_refused(me.check, certificate_of(bank), "bank", reason="damaged")
    with pytest.raises(ConfigError, match="damaged"):
        me.refresh()
    give_list(authority, bank)
    assert me.check(certificate_of(bank), "bank") == "bank"
