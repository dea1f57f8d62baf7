"""Renewing and installing: a machine that stops half way has the old identity or the new one."""

import os
from datetime import timedelta

import pytest

from cutlayer.errors import ConfigError
from cutlayer.net.trust import identity, pem
from cutlayer.net.trust.authority import Authority
from cutlayer.net.trust.identity import Identity
from tests.helpers.certificates import END, NOW, certificate_of


def stop_after(survive, patch):
    """Let some renames happen; the next one is never reached."""
    left, real = iter(range(survive)), os.rename

    def rename(*arguments, **options):
        if next(left, None) is None:
            raise KeyboardInterrupt
        return real(*arguments, **options)

    patch.setattr(os, "rename", rename)
    patch.setattr(os, "replace", rename)


def test_renewal_with_a_new_key(authority, bank):
    old, old_key = Identity.load(bank, NOW), (bank / "party.key").read_bytes()
    csr, fingerprint = identity.renew(bank)
    assert identity.renew(bank) == (csr, fingerprint)  # the same waiting key
    assert Identity.load(bank, NOW).certificate == old.certificate  # still in use
    assert (bank / "next.key").stat().st_mode & 0o777 == 0o600
    authority.sign(csr, renew=True, now=NOW)
    identity.install(bank, authority.folder / "bank.pem", authority.folder / "ca.pem", now=NOW)
    new = Identity.load(bank, NOW)
    assert pem.fingerprint(new.key.public_key()) == fingerprint and new.check(certificate_of(bank), "bank")
    assert not (bank / "next.key").exists()
    assert [path.read_bytes() for path in bank.glob("old-*.key")] == [old_key]


def test_renewal_with_the_same_key(authority, bank):
    authority.sign(bank / "bank.csr", days=500, renew=True, now=NOW)
    identity.install(bank, authority.folder / "bank.pem", authority.folder / "ca.pem", now=NOW)
    assert Identity.load(bank, END + timedelta(days=30)).name == "bank"
    assert sorted(path.name for path in bank.iterdir()) == ["bank.csr", "ca.pem", "party.key", "party.pem"]


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
    assert not list(bank.glob(".*")) and not (bank / "next.key").exists()
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
