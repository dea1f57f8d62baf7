"""A federation for tests. cutlayer.net is imported here, before any test imports grpc, so that TLS 1.2 is off."""

from pathlib import Path

from cutlayer.net.trust import identity
from cutlayer.net.trust.authority import Authority


def join(authority: Authority, folder: Path, name: str, now=None, **options) -> Path:
    """Request, sign and install: a party's folder, ready to load."""
    path, _ = identity.request(folder, name)
    authority.sign(path, now=now, **options)
    identity.install(folder, authority.folder / f"{name}.pem", authority.folder / "ca.pem", now=now)
    return folder


def give_list(authority: Authority, folder: Path) -> None:
    """Hand the newest revocation list to a party, as a person would: a copy."""
    (folder / "crl.pem").write_bytes((authority.folder / "crl.pem").read_bytes())
