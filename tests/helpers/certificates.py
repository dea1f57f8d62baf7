"""Keys and certificates of a federation, for tests."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from cutlayer.errors import ProtocolError
from cutlayer.net.trust import identity
from cutlayer.net.trust.authority import Authority

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
END = NOW + timedelta(days=365)
REFUSED = "The certificate was refused."


def join(authority: Authority, folder: Path, name: str, now=None, **options) -> Path:
    """Request, sign and install: a party's folder, ready to load."""
    path, _ = identity.request(folder, name)
    authority.sign(path, now=now, **options)
    identity.install(folder, authority.folder / f"{name}.pem", authority.folder / "ca.pem", now=now)
    return folder


def give_list(authority: Authority, folder: Path) -> None:
    """Hand the newest revocation list to a party, as a person would: a copy."""
    (folder / "crl.pem").write_bytes((authority.folder / "crl.pem").read_bytes())


def certificate_of(folder: Path) -> bytes:
    """A party's certificate, as peers see it."""
    return (folder / "party.pem").read_bytes()


def assert_refused(call, *arguments, reason):
    """Check that the call is refused with a constant text and this reason in our own log; return the error."""
    with pytest.raises(ProtocolError) as caught:
        call(*arguments)
    assert str(caught.value) == REFUSED and reason in caught.value.reason
    return caught.value
