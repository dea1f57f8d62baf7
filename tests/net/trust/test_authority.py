"""The authority: what it signs, what it refuses, and that it never sees a party's key."""

import json
import os
import string
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID
from hypothesis import given
from hypothesis import strategies as st

from cutlayer.errors import ConfigError
from cutlayer.net.trust import identity, pem
from cutlayer.net.trust.authority import Authority

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
SECRET = b"PRIVATE KEY"


@pytest.fixture
def authority(tmp_path):
    return Authority.create(tmp_path / "authority", "ours", now=NOW)


@pytest.fixture
def csr(tmp_path):
    return identity.request(tmp_path / "bank", "bank")[0]


def certificate(authority, name="bank"):
    return pem.load_certificate(authority.folder / f"{name}.pem")


def extension(certificate, kind):
    return certificate.extensions.get_extension_for_class(kind)


def states(authority, now=NOW):
    return [state for _, state in authority.states(now)]


def test_the_authority_may_sign_parties_and_nothing_below_them(authority):
    root = authority.certificate
    constraints, usage = extension(root, x509.BasicConstraints), extension(root, x509.KeyUsage)
    assert constraints.critical and constraints.value.ca and constraints.value.path_length == 0
    assert usage.critical and usage.value.key_cert_sign and usage.value.crl_sign and not usage.value.digital_signature
    root.verify_directly_issued_by(root)
    assert root.not_valid_after_utc == NOW + timedelta(days=3650)
    revocations = pem.load_list(authority.folder / "crl.pem", root)
    assert pem.serials(revocations) == set() and pem.number(revocations) == 1


def test_a_certificate_says_what_it_is_for(authority, csr):
    entry = authority.sign(csr, addresses=["bank.example", "10.0.0.1", "::1"], now=NOW)
    signed = certificate(authority)
    signed.verify_directly_issued_by(authority.certificate)
    assert not extension(signed, x509.BasicConstraints).value.ca
    both = {ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH}
    assert set(extension(signed, x509.ExtendedKeyUsage).value) == both
    names = extension(signed, x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["bank.cutlayer", "bank.example"]
    assert [str(a) for a in names.get_values_for_type(x509.IPAddress)] == ["10.0.0.1", "::1"]
    assert signed.not_valid_before_utc == NOW - timedelta(days=1)
    assert signed.not_valid_after_utc == NOW + timedelta(days=365)
    assert entry.name == "bank" and entry.serial == pem.serial(signed) and len(entry.fingerprint) == 64
    assert json.loads((authority.folder / "issued.json").read_text())["issued"][0]["serial"] == entry.serial


def test_no_certificate_outlives_its_authority(tmp_path, csr):
    short = Authority.create(tmp_path / "short", "ours", days=10, now=NOW)
    short.sign(csr, now=NOW)
    assert certificate(short).not_valid_after_utc == NOW + timedelta(days=10)
    with pytest.raises(ConfigError, match="ended on 2030-01-11"):
        short.sign(csr, renew=True, now=NOW + timedelta(days=10))


def test_private_keys_are_for_their_owner_only_whatever_the_umask(tmp_path):
    old = os.umask(0)
    try:
        authority = Authority.create(tmp_path / "authority", "ours")
        csr, _ = identity.request(tmp_path / "bank", "bank")
        authority.sign(csr)
    finally:
        os.umask(old)
    for path in (authority.folder, csr.parent):
        assert path.stat().st_mode & 0o777 == 0o700
    for path in (authority.folder / "ca.key", csr.parent / "party.key"):
        assert path.stat().st_mode & 0o777 == 0o600
    assert not list(tmp_path.rglob(".new-*"))


def test_a_partys_key_never_reaches_the_authority(authority, csr):
    authority.sign(csr, now=NOW)
    number = pem.load_key(csr.parent / "party.key").private_numbers().private_value.to_bytes(32, "big")
    request = x509.load_pem_x509_csr(csr.read_bytes())
    assert SECRET not in csr.read_bytes() and number not in request.public_bytes(Encoding.DER)
    for path in authority.folder.iterdir():
        assert (SECRET in path.read_bytes()) == (path.name == "ca.key")
        assert path.read_bytes() != (csr.parent / "party.key").read_bytes()


def test_keys_are_never_overwritten(tmp_path):
    path = tmp_path / "a.key"
    pem.write_key(path, ec.generate_private_key(ec.SECP256R1()))
    before = path.read_bytes()
    with pytest.raises(ConfigError, match="never overwritten"):
        pem.write_key(path, ec.generate_private_key(ec.SECP256R1()))
    assert path.read_bytes() == before and [p.name for p in tmp_path.iterdir()] == ["a.key"]


def test_a_name_is_signed_once_unless_renewed_revoked_or_expired(authority, csr, tmp_path):
    authority.sign(csr, days=10, now=NOW)
    with pytest.raises(ConfigError, match="add --renew"):
        authority.sign(csr, now=NOW)
    authority.sign(csr, days=10, renew=True, now=NOW)  # the same key
    other, _ = identity.request(tmp_path / "again", "bank")
    authority.sign(other, days=10, renew=True, now=NOW)  # a new key
    assert states(authority) == ["valid"] * 3
    later = NOW + timedelta(days=11)
    authority.sign(other, now=later)
    assert states(authority, later) == ["expired"] * 3 + ["valid"]
    authority.revoke("bank", now=later)
    assert states(authority, later) == ["expired"] * 3 + ["revoked"]
    fresh, _ = identity.request(tmp_path / "fresh", "bank")
    authority.sign(fresh, now=later)


def test_renewing_a_stranger_is_refused(authority, csr):
    with pytest.raises(ConfigError, match="nothing to renew"):
        authority.sign(csr, renew=True, now=NOW)
    assert authority.issued() == [] and not (authority.folder / "bank.pem").exists()


def test_a_revoked_key_and_a_key_of_another_party_are_refused(authority, csr):
    authority.sign(csr, now=NOW)
    with pytest.raises(ConfigError, match="belongs to the party bank"):
        authority.sign(csr, name="shop", now=NOW)
    authority.revoke("bank", now=NOW)
    with pytest.raises(ConfigError, match="was revoked"):
        authority.sign(csr, now=NOW)


def test_revocation_by_serial_number_leaves_the_others(authority, csr):
    first = authority.sign(csr, now=NOW)
    authority.sign(csr, renew=True, now=NOW)
    assert authority.revoke(first.serial, now=NOW) == [first]
    assert states(authority) == ["revoked", "valid"]
    assert pem.number(pem.load_list(authority.folder / "crl.pem", authority.certificate)) == 2
    for which, words in ((first.serial, "nothing to revoke"), ("shop", "that was signed"), ("", "that was signed")):
        with pytest.raises(ConfigError, match=words):
            authority.revoke(which, now=NOW)


def test_a_later_revocation_keeps_the_earlier_ones(authority, csr, tmp_path):
    first = authority.sign(csr, now=NOW)
    second = authority.sign(identity.request(tmp_path / "shop", "shop")[0], now=NOW)
    authority.revoke("bank", now=NOW)
    authority.revoke("shop", now=NOW)
    revocations = pem.load_list(authority.folder / "crl.pem", authority.certificate)
    assert pem.serials(revocations) == {int(first.serial, 16), int(second.serial, 16)}
    assert pem.number(revocations) == 3


def test_two_commands_at_once_lose_nothing(authority, tmp_path):
    requests = [identity.request(tmp_path / f"p{n}", f"p{n}")[0] for n in range(12)]
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda request: Authority(authority.folder).sign(request, now=NOW), requests))
    assert sorted(entry.name for entry in authority.issued()) == sorted(f"p{n}" for n in range(12))


def test_another_name_than_the_requests_own(authority, csr):
    assert authority.sign(csr, name="shop", now=NOW).name == "shop"
    assert (authority.folder / "shop.pem").exists() and not (authority.folder / "bank.pem").exists()


@pytest.mark.parametrize(
    "address", ["shop.cutlayer", "cutlayer", "*.example", "*", "a b", "", "Ä.example", "a..b", "-a"]
)
def test_an_address_cannot_pass_for_another_party(authority, csr, address):
    with pytest.raises(ConfigError, match="--address"):
        authority.sign(csr, addresses=[address], now=NOW)
    assert authority.issued() == []


def test_of_a_request_nothing_but_name_and_key_is_used(authority, tmp_path):
    key = ec.generate_private_key(ec.SECP256R1())
    builder = x509.CertificateSigningRequestBuilder().subject_name(pem.subject("bank"))
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName("shop.cutlayer")]), critical=False)
    (tmp_path / "sly.csr").write_bytes(builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM))
    authority.sign(tmp_path / "sly.csr", now=NOW)
    signed = certificate(authority)
    assert not extension(signed, x509.BasicConstraints).value.ca
    names = extension(signed, x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["bank.cutlayer"]


def broken_signature(path):
    der = bytearray(x509.load_pem_x509_csr(path.read_bytes()).public_bytes(Encoding.DER))
    der[-1] ^= 1
    return x509.load_der_x509_csr(bytes(der)).public_bytes(Encoding.PEM)


def another_kind(path, key):
    builder = x509.CertificateSigningRequestBuilder().subject_name(pem.subject("bank"))
    return builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)


def test_bad_requests(authority, csr, tmp_path):
    bad = {
        "signature": broken_signature(csr),
        "curve": another_kind(csr, ec.generate_private_key(ec.SECP384R1())),
        "rsa": another_kind(csr, rsa.generate_private_key(65537, 2048)),
        "empty": b"",
        "text": b"hello",
        "key": (csr.parent / "party.key").read_bytes(),
        "huge": csr.read_bytes() + b" " * pem.LIMIT,
    }
    for name, data in bad.items():
        (tmp_path / name).write_bytes(data)
        with pytest.raises(ConfigError, match="Expected"):
            authority.sign(tmp_path / name, now=NOW)
    with pytest.raises(ConfigError, match="there is none"):
        authority.sign(tmp_path / "nothing.csr", now=NOW)
    assert authority.issued() == []


@given(st.text(string.ascii_lowercase + string.digits + "-", min_size=1, max_size=40))
def test_good_names_are_dns_labels(name):
    good = name[0] != "-" and name[-1] != "-" and name not in ("ca", "crl")
    if good:
        assert pem.party_name(name) == name
    else:
        with pytest.raises(ConfigError):
            pem.party_name(name)


@given(st.text(max_size=60))
def test_other_names_are_refused(name):
    allowed = set(string.ascii_lowercase + string.digits + "-")
    if not name or len(name) > 40 or set(name) - allowed:
        with pytest.raises(ConfigError, match="1 to 40 lowercase letters"):
            pem.party_name(name)


@pytest.mark.parametrize("name", ["ca", "crl", "bank\n", "../bank", "Bank", "bank.cutlayer", "x" * 41, "bänk", "٣"])
def test_names_that_would_do_harm(name):
    with pytest.raises(ConfigError):
        pem.party_name(name)


def test_a_folder_appears_whole_or_not_at_all(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Authority, "_write_list", full)
    with pytest.raises(OSError, match="No space"):
        Authority.create(tmp_path / "authority", "ours")
    assert list(tmp_path.iterdir()) == []


def test_an_existing_folder_is_left_alone(authority):
    before = {path: path.read_bytes() for path in authority.folder.iterdir()}
    with pytest.raises(ConfigError, match="exists already"):
        Authority.create(authority.folder, "ours")
    assert {path: path.read_bytes() for path in authority.folder.iterdir()} == before


@pytest.mark.parametrize(("name", "days"), [("", 1), (" ", 1), ("x" * 65, 1), ("a\nb", 1), ("a", 0), ("a", 10**9)])
def test_bad_federations(tmp_path, name, days):
    with pytest.raises(ConfigError, match="Expected"):
        Authority.create(tmp_path / "authority", name, days)
    assert list(tmp_path.iterdir()) == []


def test_damage_is_noticed(authority, tmp_path):
    other = Authority.create(tmp_path / "other", "ours", now=NOW)
    (authority.folder / "crl.pem").write_bytes((other.folder / "crl.pem").read_bytes())  # the same name, another key
    with pytest.raises(ConfigError, match="revocation list"):
        authority.states(NOW)
    (authority.folder / "issued.json").write_text("{}")
    with pytest.raises(ConfigError, match="issued"):
        authority.issued()
    (authority.folder / "ca.pem").write_bytes((other.folder / "ca.pem").read_bytes())
    with pytest.raises(ConfigError, match="belong together"):
        Authority(authority.folder)
    (authority.folder / "ca.key").chmod(0o640)
    with pytest.raises(ConfigError, match="mode 640"):
        Authority(authority.folder)
