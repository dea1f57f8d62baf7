"""A party's identity: what it refuses to start with, whom it believes, and what it signs."""

import os
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cutlayer.errors import ConfigError, ProtocolError
from cutlayer.net.trust import identity, pem
from cutlayer.net.trust.authority import Authority
from cutlayer.net.trust.identity import CLOCK_TOLERANCE, Identity, Refused
from tests.net import give_list, join

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
END = NOW + timedelta(days=365)
REFUSED = "The certificate was refused."


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """Two parties and their authority, which no test changes."""
    folder = tmp_path_factory.mktemp("shared")
    authority = Authority.create(folder / "authority", "ours", now=NOW)
    return authority, join(authority, folder / "bank", "bank", NOW), join(authority, folder / "shop", "shop", NOW)


@pytest.fixture
def authority(tmp_path):
    return Authority.create(tmp_path / "authority", "ours", now=NOW)


@pytest.fixture
def bank(authority, tmp_path):
    return join(authority, tmp_path / "bank", "bank", NOW)


@pytest.fixture
def shop(authority, tmp_path):
    return join(authority, tmp_path / "shop", "shop", NOW)


def shown(folder):
    return (folder / "party.pem").read_bytes()


def refused(call, *arguments, reason):
    with pytest.raises(ProtocolError) as caught:
        call(*arguments)
    assert str(caught.value) == REFUSED and reason in caught.value.reason
    return caught.value


def test_load(bank):
    found = Identity.load(bank, NOW)
    assert found.name == "bank" and found.key_path == bank / "party.key" and found.revoked == frozenset()
    assert "PrivateKey" not in repr(found)


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
    assert me.check(shown(shop), "shop") == me.check(shown(shop), None) == "shop"
    assert me.check(x509.load_pem_x509_certificate(shown(shop)).public_bytes(Encoding.DER), "shop") == "shop"
    error = refused(me.check, shown(shop), "bank", reason="it is of shop, not of bank")
    assert isinstance(error, Refused) and error.__cause__ is not None
    refused(me.check, (bank / "ca.pem").read_bytes(), None, reason="not one that this authority signed for a party")
    me.now = END + timedelta(hours=1)
    refused(me.check, shown(shop), "shop", reason="expired on")


def test_strangers_with_the_same_names(shared, tmp_path):
    other = Authority.create(tmp_path / "other", "ours", now=NOW)
    stranger = join(other, tmp_path / "shop", "shop", NOW)
    me = Identity.load(shared[1], NOW)
    refused(me.check, shown(stranger), "shop", reason="not one that this authority signed")
    theirs = Identity.load(stranger, NOW)
    refused(me.verify, shown(stranger), "shop", b"hello", theirs.sign(b"hello"), reason="not one that this")


def odd(authority, change):
    """A certificate that our authority did sign, and that is not one of a party."""
    key = pem.load_key(authority.folder / "ca.key")
    mine = ec.generate_private_key(ec.SECP256R1()).public_key()
    extensions = {
        "constraints": (x509.BasicConstraints(ca=False, path_length=None), True),
        "usage": (pem_usage(digital_signature=True), True),
        "purposes": (x509.ExtendedKeyUsage(sorted(identity.BOTH_ENDS, key=str)), False),
        "names": (x509.SubjectAlternativeName([x509.DNSName("shop.cutlayer")]), False),
    } | change
    builder = x509.CertificateBuilder().subject_name(pem.subject("shop")).public_key(mine)
    builder = builder.issuer_name(authority.certificate.subject).serial_number(7)
    builder = builder.not_valid_before(NOW).not_valid_after(END)
    for one in extensions.values():
        builder = builder.add_extension(*one) if one else builder
    return builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)


def pem_usage(**on):
    names = (
        "digital_signature content_commitment key_encipherment data_encipherment key_agreement key_cert_sign crl_sign"
    )
    return x509.KeyUsage(**dict.fromkeys(names.split(), False) | on, encipher_only=False, decipher_only=False)


def names(*dns):
    return x509.SubjectAlternativeName([x509.DNSName(one) for one in dns]), False


ODD = {
    "an authority": {"constraints": (x509.BasicConstraints(ca=True, path_length=0), True)},
    "no constraints": {"constraints": None},
    "no usage": {"usage": None},
    "may not sign": {"usage": (pem_usage(key_agreement=True), True)},
    "no purposes": {"purposes": None},
    "one end only": {"purposes": (x509.ExtendedKeyUsage([x509.oid.ExtendedKeyUsageOID.SERVER_AUTH]), False)},
    "two parties": {"names": names("shop.cutlayer", "bank.cutlayer")},
    "another party": {"names": names("bank.cutlayer")},
    "every party": {"names": names("*.cutlayer")},
    "no party": {"names": names("shop.example")},
    "no names": {"names": None},
    "unknown": {"unknown": (x509.UnrecognizedExtension(x509.ObjectIdentifier("1.2.3.4"), b"\x05\x00"), True)},
}


@pytest.mark.parametrize("change", ODD.values(), ids=ODD)
def test_certificates_that_are_not_a_partys(shared, change):
    me = Identity.load(shared[1], NOW)
    assert me.check(odd(shared[0], {}), "shop") == "shop"
    refused(me.check, odd(shared[0], change), None, reason="")


@given(st.binary(max_size=300))
def test_any_bytes_are_refused_alike(shared, data):
    me = Identity.load(shared[1], NOW)
    for bytes_ in (data, b"-----BEGIN CERTIFICATE-----\n" + data):
        refused(me.check, bytes_, None, reason="")


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_a_changed_byte_is_noticed(shared, data):
    der = bytearray(x509.load_pem_x509_certificate(shown(shared[2])).public_bytes(Encoding.DER))
    place, flip = data.draw(st.integers(0, len(der) - 1)), data.draw(st.integers(1, 255))
    der[place] ^= flip
    refused(Identity.load(shared[1], NOW).check, bytes(der), None, reason="")


def test_huge_certificates_are_refused_before_they_are_parsed(shared, monkeypatch):
    me = Identity.load(shared[1], NOW)
    monkeypatch.setattr(x509, "load_pem_x509_certificate", None)
    refused(me.check, shown(shared[2]) + b"\n" * pem.LIMIT, "shop", reason=f"more than {pem.LIMIT} bytes")


def test_statements(shared):
    _, bank, shop = shared
    me, peer = Identity.load(bank, NOW), Identity.load(shop, NOW)
    signature = peer.sign(b"the rows are agreed")
    assert me.verify(shown(shop), "shop", b"the rows are agreed", signature) == "shop"
    wrong = "a statement of shop with a wrong signature"
    refused(me.verify, shown(shop), "shop", b"the rows are not agreed", signature, reason=wrong)
    refused(me.verify, shown(shop), "shop", b"the rows are agreed", signature[:-1], reason=wrong)
    refused(me.verify, shown(shop), "shop", b"the rows are agreed", b"", reason=wrong)
    refused(me.verify, shown(bank), "shop", b"the rows are agreed", signature, reason="it is of bank")
    refused(me.verify, shown(bank), "bank", b"the rows are agreed", signature, reason="wrong signature")
    bare = peer.key.sign(b"the rows are agreed", ec.ECDSA(hashes.SHA256()))  # without the context
    refused(me.verify, shown(shop), "shop", b"the rows are agreed", bare, reason=wrong)


def test_a_running_party_notices_a_revocation(authority, bank, shop):
    me, signature = Identity.load(bank, NOW), Identity.load(shop, NOW).sign(b"hello")
    assert me.check(shown(shop)) == "shop" and not me.refresh()
    give_list(authority, bank)
    assert me.refresh() and not me.refresh() and me.check(shown(shop)) == "shop"
    authority.revoke("shop", now=NOW)
    before = (bank / "crl.pem").read_bytes()
    give_list(authority, bank)
    refused(me.check, shown(shop), "shop", reason="it was revoked")
    refused(me.verify, shown(shop), "shop", b"hello", signature, reason="it was revoked")
    (bank / "crl.pem").write_bytes(before)  # an older list does not bring a party back
    refused(me.check, shown(shop), "shop", reason="older than the one before it")
    (bank / "crl.pem").unlink()  # nor does none
    refused(me.check, shown(shop), "shop", reason="Expected a file")
    (bank / "crl.pem").write_bytes(b"half of a")
    refused(me.check, shown(bank), "bank", reason="damaged")
    with pytest.raises(ConfigError, match="damaged"):
        me.refresh()
    give_list(authority, bank)
    assert me.check(shown(bank), "bank") == "bank"


def test_renewal_with_a_new_key(authority, bank):
    old, old_key = Identity.load(bank, NOW), (bank / "party.key").read_bytes()
    csr, fingerprint = identity.renew(bank)
    assert identity.renew(bank) == (csr, fingerprint)  # the same waiting key
    assert Identity.load(bank, NOW).certificate == old.certificate  # still in use
    assert (bank / "next.key").stat().st_mode & 0o777 == 0o600
    authority.sign(csr, renew=True, now=NOW)
    identity.install(bank, authority.folder / "bank.pem", authority.folder / "ca.pem", now=NOW)
    new = Identity.load(bank, NOW)
    assert pem.fingerprint(new.key.public_key()) == fingerprint and new.check(shown(bank), "bank")
    assert not (bank / "next.key").exists()
    assert [path.read_bytes() for path in bank.glob("old-*.key")] == [old_key]


def test_renewal_with_the_same_key(authority, bank):
    authority.sign(bank / "bank.csr", days=500, renew=True, now=NOW)
    identity.install(bank, authority.folder / "bank.pem", authority.folder / "ca.pem", now=NOW)
    assert Identity.load(bank, END + timedelta(days=30)).name == "bank"
    assert sorted(path.name for path in bank.iterdir()) == ["bank.csr", "ca.pem", "party.key", "party.pem"]


def stop_after(survive, patch):
    """Let some renames happen; the next one is never reached."""
    left, real = iter(range(survive)), os.rename

    def rename(*arguments, **options):
        if next(left, None) is None:
            raise KeyboardInterrupt
        return real(*arguments, **options)

    patch.setattr(os, "rename", rename)
    patch.setattr(os, "replace", rename)


def test_a_machine_that_stops_while_installing_has_one_identity_or_the_other(authority, bank, monkeypatch):
    csr, fingerprint = identity.renew(bank)
    authority.sign(csr, renew=True, now=NOW)
    places = (bank, authority.folder / "bank.pem", authority.folder / "ca.pem")
    for survive in range(8):
        with monkeypatch.context() as patch:
            stop_after(survive, patch)
            try:
                identity.install(*places, now=NOW)
                break
            except KeyboardInterrupt:
                assert Identity.load(bank, NOW).name == "bank"
    assert 2 <= survive < 8
    assert pem.fingerprint(Identity.load(bank, NOW).key.public_key()) == fingerprint
    assert not list(bank.glob(".new-*")) and not (bank / "next.key").exists()
    assert identity.renew(bank)[1] != fingerprint


def test_a_renewal_after_such_a_stop_makes_a_new_key(authority, bank, monkeypatch):
    csr, fingerprint = identity.renew(bank)
    authority.sign(csr, renew=True, now=NOW)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        stop_after(2, patch)  # ca.pem and party.pem are in place, the key is still called next.key
        identity.install(bank, authority.folder / "bank.pem", authority.folder / "ca.pem", now=NOW)
    assert Identity.load(bank, NOW).key_path == bank / "next.key"
    assert identity.renew(bank)[1] != fingerprint
    assert pem.fingerprint(Identity.load(bank, NOW).key.public_key()) == fingerprint


def test_what_is_not_installed(authority, bank, shop, tmp_path):
    before = {path: path.read_bytes() for path in bank.iterdir()}
    ca, mine = authority.folder / "ca.pem", authority.folder / "bank.pem"
    other = Authority.create(tmp_path / "other", "ours", now=NOW)
    other.sign(bank / "bank.csr", now=NOW)
    bad = {
        "do not match": (shop / "party.pem", ca, None, NOW),
        "another authority": (other.folder / "bank.pem", other.folder / "ca.pem", None, NOW),
        "not one that": (other.folder / "bank.pem", ca, None, NOW),
        "expired": (mine, ca, None, END + timedelta(days=1)),
        "revocation list": (mine, ca, other.folder / "crl.pem", NOW),
        "Expected a certificate": (bank / "bank.csr", ca, None, NOW),
    }
    for words, arguments in bad.items():
        with pytest.raises(ConfigError, match=words):
            identity.install(bank, *arguments)
    authority.revoke("bank", now=NOW)
    with pytest.raises(ConfigError, match="it was revoked"):
        identity.install(bank, mine, ca, authority.folder / "crl.pem", NOW)
    assert {path: path.read_bytes() for path in bank.iterdir()} == before


def test_lists_are_installed_even_empty_and_never_older(authority, bank, shop, tmp_path):
    places = (bank, authority.folder / "bank.pem", authority.folder / "ca.pem")
    empty = tmp_path / "empty.pem"
    empty.write_bytes((authority.folder / "crl.pem").read_bytes())
    identity.install(*places, empty, NOW)
    assert (bank / "crl.pem").read_bytes() == empty.read_bytes()
    authority.revoke("shop", now=NOW)
    identity.install(*places, authority.folder / "crl.pem", NOW)
    with pytest.raises(ConfigError, match="older"):
        identity.install(*places, empty, NOW)
    assert len(Identity.load(bank, NOW).revoked) == 1
