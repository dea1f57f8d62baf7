"""The authority of a federation: a folder on one machine, from which certificates are signed, renewed and revoked.

It holds ca.key (which never leaves), ca.pem and crl.pem (which everybody gets), NAME.pem for every party that was
signed, and issued.json, the list of all of them. A party's private key is never here: the party sends a request.
The signed revocation list is the only record of what was revoked, so no second record can disagree with it.
"""

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from re import fullmatch

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID

from cutlayer.errors import ConfigError
from cutlayer.files import write_bytes
from cutlayer.net.trust import pem

BACKDATED = timedelta(days=1)  # so that a machine whose clock is behind can use a new certificate at once
MOST_DAYS = 36_500
LABEL = "[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
BOTH_ENDS = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
USAGES = "digital_signature content_commitment key_encipherment data_encipherment key_agreement key_cert_sign crl_sign"


@dataclass(frozen=True, slots=True)
class Issued:
    """One signed certificate: a line of issued.json."""

    name: str
    serial: str
    fingerprint: str
    start: str
    end: str


class Authority:
    """An opened authority; every change is on disk when a method returns."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.certificate = pem.load_certificate(folder / "ca.pem")
        self._key = pem.load_key(folder / "ca.key")
        if self._key.public_key() != self.certificate.public_key():
            raise ConfigError(f"Expected ca.key and ca.pem of {folder} to belong together; restore both of them.")

    @classmethod
    def create(cls, folder: Path, name: str, days: int = 3650, now: datetime | None = None) -> "Authority":
        """Make the key, its own certificate and an empty revocation list, in a folder that must not exist."""
        if not (name.strip() and name.isprintable() and len(name.encode()) <= 64):
            raise ConfigError(f"Expected a federation's name of 1 to 64 printable bytes, got {name[:80]!r}.")
        start, end = _period(days, now)
        with pem.new_folder(folder) as temporary:
            key = ec.generate_private_key(ec.SECP256R1())
            builder = _builder(pem.subject(name), key.public_key(), start, end)
            builder = builder.issuer_name(pem.subject(name)).serial_number(x509.random_serial_number())
            builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            builder = builder.add_extension(_usage("key_cert_sign", "crl_sign"), critical=True)
            pem.write_key(temporary / "ca.key", key)
            write_bytes(temporary / "ca.pem", builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM))
            authority = cls(temporary)
            authority._write_index([])
            authority._write_list([], 1, start)
        return cls(folder)

    def issued(self) -> list[Issued]:
        """Every certificate ever signed, oldest first."""
        path = self.folder / "issued.json"
        try:
            return [Issued(**line) for line in json.loads(path.read_text())["issued"]]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ConfigError(f"Expected the list of signed certificates in {path}; restore it.") from error

    def states(self, now: datetime | None = None) -> list[tuple[Issued, str]]:
        """Every certificate ever signed, with the word valid, expired or revoked."""
        revoked, now = pem.serials(self._list()), now or datetime.now(UTC)

        def state(entry: Issued) -> str:
            if int(entry.serial, 16) in revoked:
                return "revoked"
            return "valid" if now <= datetime.fromisoformat(entry.end) else "expired"

        return [(entry, state(entry)) for entry in self.issued()]

    def sign(
        self,
        request: Path,
        *,
        name: str | None = None,
        days: int = 365,
        addresses: Sequence[str] = (),
        renew: bool = False,
        now: datetime | None = None,
    ) -> Issued:
        """Sign the key of a request. Nothing else of the request is used but its name, where none is given here.

        The list is written before the certificate: one that nobody could revoke by name must not exist.
        """
        asked, key = pem.load_request(request)
        name = pem.party_name(asked if name is None else name)
        start, end = _period(days, now)
        last = self.certificate.not_valid_after_utc
        if start + BACKDATED >= last:
            raise ConfigError(f"The authority in {self.folder} ended on {last:%Y-%m-%d}: make a new one.")
        start, end = max(start, self.certificate.not_valid_before_utc), min(end, last)
        with self._locked():
            self._refuse(name, fingerprint := pem.fingerprint(key), renew, now)
            certificate = self._sign(_builder(pem.subject(name), key, start, end), _names(name, addresses))
            entry = Issued(name, pem.serial(certificate), fingerprint, start.isoformat(), end.isoformat())
            self._write_index([*self.issued(), entry])
            write_bytes(self.folder / f"{name}.pem", certificate.public_bytes(Encoding.PEM))
        return entry

    def revoke(self, which: str, now: datetime | None = None) -> list[Issued]:
        """Put every valid certificate of a name, or the one of a serial number, on the revocation list."""
        with self._locked():
            known = [
                (entry, state)
                for entry, state in self.states(now)
                if which == entry.name or which.zfill(40) == entry.serial
            ]
            if not known:
                raise ConfigError(f"Expected a name or serial number that was signed, got {which[:60]!r}.")
            chosen = [entry for entry, state in known if state == "valid"]
            if not chosen:
                raise ConfigError(f"There is nothing to revoke: every certificate of {which} is revoked or expired.")
            old, when = self._list(), (now or datetime.now(UTC)).replace(microsecond=0)
            revocation = x509.RevokedCertificateBuilder().revocation_date(when)
            added = [revocation.serial_number(int(entry.serial, 16)).build() for entry in chosen]
            self._write_list([*old, *added], pem.number(old) + 1, when)
        return chosen

    def _refuse(self, name: str, fingerprint: str, renew: bool, now: datetime | None) -> None:
        states = self.states(now)
        mine = [state for entry, state in states if entry.name == name]
        if "valid" in mine and not renew:
            raise ConfigError(
                f"The party {name} has a valid certificate already: add --renew, or revoke that one first."
            )
        if renew and not mine:
            raise ConfigError(f"There is nothing to renew: {name} was never signed here; leave out --renew.")
        for entry, state in states:
            if entry.fingerprint == fingerprint and (entry.name != name or state == "revoked"):
                fault = "was revoked" if state == "revoked" else f"belongs to the party {entry.name}"
                raise ConfigError(
                    f"Expected a key of {name}'s own, but this one {fault}: ask for a request with a new key."
                )

    def _sign(self, builder: x509.CertificateBuilder, names: x509.SubjectAlternativeName) -> x509.Certificate:
        builder = builder.issuer_name(self.certificate.subject).serial_number(x509.random_serial_number())
        for extension, critical in (
            (x509.BasicConstraints(ca=False, path_length=None), True),
            (_usage("digital_signature"), True),
            (BOTH_ENDS, False),
            (names, False),
            (x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), False),
        ):
            builder = builder.add_extension(extension, critical)
        return builder.sign(self._key, hashes.SHA256())

    def _list(self) -> x509.CertificateRevocationList:
        return pem.load_list(self.folder / "crl.pem", self.certificate)

    def _write_index(self, issued: Sequence[Issued]) -> None:
        text = json.dumps({"version": 1, "issued": [asdict(entry) for entry in issued]}, indent=1)
        write_bytes(self.folder / "issued.json", text.encode())

    def _write_list(self, entries: Sequence[x509.RevokedCertificate], number: int, now: datetime) -> None:
        """A list is valid until the authority ends; its number, not a date, tells whether a later one exists."""
        builder = x509.CertificateRevocationListBuilder().issuer_name(self.certificate.subject).last_update(now)
        builder = builder.next_update(self.certificate.not_valid_after_utc)
        key = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = builder.add_extension(key, critical=False).add_extension(x509.CRLNumber(number), critical=False)
        for entry in entries:
            builder = builder.add_revoked_certificate(entry)
        write_bytes(self.folder / "crl.pem", builder.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM))

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Two commands at once must not lose a line of the list of certificates."""
        if os.name != "posix":
            yield
            return
        import fcntl

        descriptor = os.open(self.folder, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


def _period(days: int, now: datetime | None) -> tuple[datetime, datetime]:
    if not 1 <= days <= MOST_DAYS:
        raise ConfigError(f"Expected days={days} to lie between 1 and {MOST_DAYS}.")
    now = (now or datetime.now(UTC)).replace(microsecond=0)
    return now - BACKDATED, now + timedelta(days=days)


def _builder(
    subject: x509.Name, key: ec.EllipticCurvePublicKey, start: datetime, end: datetime
) -> x509.CertificateBuilder:
    builder = x509.CertificateBuilder().subject_name(subject).public_key(key)
    builder = builder.not_valid_before(start).not_valid_after(end)
    return builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)


def _usage(*allowed: str) -> x509.KeyUsage:
    return x509.KeyUsage(
        **{usage: usage in allowed for usage in USAGES.split()}, encipher_only=False, decipher_only=False
    )


def _names(name: str, addresses: Sequence[str]) -> x509.SubjectAlternativeName:
    """The party's own name and its addresses; an address must not pass for another party."""
    names: list[x509.GeneralName] = [x509.DNSName(name + pem.SUFFIX)]
    for address in dict.fromkeys(addresses):
        try:
            names.append(x509.IPAddress(ip_address(address)))
        except ValueError:
            valid = len(address) <= 253 and fullmatch(rf"{LABEL}(\.{LABEL})*", address)
            if not valid or f".{address}".endswith(pem.SUFFIX):
                raise ConfigError(
                    f"Expected --address {address[:80]!r} to be a host name in lowercase or an IP address, "
                    f"without wildcard and not under {pem.SUFFIX}."
                ) from None
            names.append(x509.DNSName(address))
    return x509.SubjectAlternativeName(names)
