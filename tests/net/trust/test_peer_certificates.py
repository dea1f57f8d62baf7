"""Certificates that a peer may show: any that is not a party's is refused, always with the same words."""

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cutlayer.net.trust import identity, pem
from cutlayer.net.trust.identity import Identity
from tests.helpers.certificates import END, NOW, assert_refused, certificate_of


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
    for extension in extensions.values():
        builder = builder.add_extension(*extension) if extension else builder
    return builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)


def pem_usage(**on):
    names = (
        "digital_signature content_commitment key_encipherment data_encipherment key_agreement key_cert_sign crl_sign"
    )
    return x509.KeyUsage(**dict.fromkeys(names.split(), False) | on, encipher_only=False, decipher_only=False)


def names(*dns):
    return x509.SubjectAlternativeName([x509.DNSName(name) for name in dns]), False


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
    assert_refused(me.check, odd(shared[0], change), None, reason="")


@given(st.binary(max_size=300))
def test_any_bytes_are_refused_alike(shared, data):
    me = Identity.load(shared[1], NOW)
    for bytes_ in (data, b"-----BEGIN CERTIFICATE-----\n" + data):
        assert_refused(me.check, bytes_, None, reason="")


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_a_changed_byte_is_noticed(shared, data):
    der = bytearray(x509.load_pem_x509_certificate(certificate_of(shared[2])).public_bytes(Encoding.DER))
    place, flip = data.draw(st.integers(0, len(der) - 1)), data.draw(st.integers(1, 255))
    der[place] ^= flip
    assert_refused(Identity.load(shared[1], NOW).check, bytes(der), None, reason="")


def test_huge_certificates_are_refused_before_they_are_parsed(shared, monkeypatch):
    me = Identity.load(shared[1], NOW)
    monkeypatch.setattr(x509, "load_pem_x509_certificate", None)
    assert_refused(
        me.check, certificate_of(shared[2]) + b"\n" * pem.LIMIT, "shop", reason=f"more than {pem.LIMIT} bytes"
    )
