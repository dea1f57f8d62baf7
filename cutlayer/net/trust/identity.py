"""A party's identity: its key, its certificate, and whom it believes.

The folder holds party.key (made here, never sent), party.pem, ca.pem and, where there is one, crl.pem. A renewal puts
next.key beside the old key. To install a certificate is one rename, that of party.pem: `Identity.load` takes whichever
of the two keys fits it, so a machine that stops half way has the old identity or the new one.
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID

from cutlayer.errors import ConfigError, ProtocolError
from cutlayer.files import write_bytes
from cutlayer.net.trust import pem

CLOCK_TOLERANCE = timedelta(minutes=5)
STATEMENT = b"cutlayer statement v1\0"  # so that a signature made for anything else never passes for a statement
KEYS = ("party.key", "next.key")
BOTH_ENDS = {ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH}


class Refused(ProtocolError):
    """A stranger learns only that it was refused; `reason` is for our own log."""

    def __init__(self, reason: str) -> None:
        super().__init__("The certificate was refused.")
        self.reason = reason


class Unfit(Exception):
    """Why a certificate cannot be used, and what its owner can do about it."""

    def __init__(self, reason: str, remedy: str = "ask your authority for a new one") -> None:
        super().__init__(reason)
        self.remedy = remedy


def request(folder: Path, name: str) -> tuple[Path, str]:
    """Make a party's key and its request in a new folder; returns the request's path and fingerprint."""
    pem.party_name(name)
    with pem.new_folder(folder) as temporary:
        key = ec.generate_private_key(ec.SECP256R1())
        pem.write_key(temporary / "party.key", key)
        _write_request(temporary, name, key)
    return folder / f"{name}.csr", pem.fingerprint(key.public_key())


def renew(folder: Path) -> tuple[Path, str]:
    """Make a new key and its request; the old key stays in use. A second call asks for the waiting key again."""
    name = pem.common_name(pem.load_certificate(folder / "party.pem").subject)
    pem.party_name(name)
    _rename_keys(folder)
    if not (folder / "next.key").exists():
        pem.write_key(folder / "next.key", ec.generate_private_key(ec.SECP256R1()))
    key = pem.load_key(folder / "next.key")
    _write_request(folder, name, key)
    return folder / f"{name}.csr", pem.fingerprint(key.public_key())


def install(folder: Path, certificate: Path, ca: Path, crl: Path | None = None, now: datetime | None = None) -> str:
    """Check a certificate against our keys and the authority, then put it in place; returns the party's name."""
    new, root = pem.load_certificate(certificate), pem.load_certificate(ca)
    _matching_key(folder, new)
    if (folder / "ca.pem").exists() and pem.load_certificate(folder / "ca.pem") != root:
        raise ConfigError(f"The folder {folder} belongs to another authority: make a new folder for {ca}.")
    before = pem.load_list(folder / "crl.pem", root) if (folder / "crl.pem").exists() else None
    after = pem.load_list(crl, root) if crl else before  # compared with None below: an empty list is falsy
    if after is not None and before is not None and pem.number(after) < pem.number(before):
        raise ConfigError(f"The revocation list {crl} is older than the one in {folder}: get the newest.")
    name = _own(certificate, new, root, pem.serials(after), now)
    write_bytes(folder / "ca.pem", root.public_bytes(Encoding.PEM))
    if after is not None:
        write_bytes(folder / "crl.pem", after.public_bytes(Encoding.PEM))
    write_bytes(folder / "party.pem", new.public_bytes(Encoding.PEM))  # from here on the new identity holds
    _rename_keys(folder)
    return name


def _write_request(folder: Path, name: str, key: ec.EllipticCurvePrivateKey) -> None:
    request = x509.CertificateSigningRequestBuilder().subject_name(pem.subject(name)).sign(key, hashes.SHA256())
    write_bytes(folder / f"{name}.csr", request.public_bytes(Encoding.PEM))


def _matching_key(folder: Path, certificate: x509.Certificate) -> Path:
    present = [folder / name for name in KEYS if (folder / name).exists()]
    for path in present or [folder / "party.key"]:
        if pem.load_key(path).public_key() == certificate.public_key():
            return path
    raise ConfigError(f"The key in {folder} and the certificate do not match: install the one signed for this key.")


def _rename_keys(folder: Path) -> None:
    """Name the key that is in use party.key; the one before is kept, since no key is ever overwritten."""
    key, path = _matching_key(folder, pem.load_certificate(folder / "party.pem")), folder / "party.key"
    if key != path:
        if path.exists():
            path.rename(folder / f"old-{pem.fingerprint(pem.load_key(path).public_key())[:16]}.key")
        key.rename(path)


def _own(
    path: Path, certificate: x509.Certificate, ca: x509.Certificate, revoked: frozenset[int], now: datetime | None
) -> str:
    try:
        return examine(certificate, ca, revoked, now or datetime.now(UTC))
    except Unfit as error:
        raise ConfigError(f"The certificate {path} cannot be used: {error}; {error.remedy}.") from error


def examine(certificate: x509.Certificate, ca: x509.Certificate, revoked: frozenset[int], now: datetime) -> str:
    """Return the name in a certificate that this authority signed and that may be used now, or raise Unfit."""
    try:
        pem.p256(certificate.public_key())
        certificate.verify_directly_issued_by(ca)  # names and signature
        _check_purposes(certificate.extensions, ca.extensions)
    except (*pem.BROKEN, InvalidSignature) as error:
        raise Unfit(
            "it is not one that this authority signed for a party", "use the ca.pem of its authority"
        ) from error
    for subject, checked in (("it", certificate), ("its authority", ca)):
        start, end = checked.not_valid_before_utc, checked.not_valid_after_utc
        if now + CLOCK_TOLERANCE < start:
            raise Unfit(f"{subject} starts on {start:%Y-%m-%d %H:%M} UTC", "set this machine's clock")
        if now - CLOCK_TOLERANCE > end:
            raise Unfit(f"{subject} expired on {end:%Y-%m-%d %H:%M} UTC")
    if certificate.serial_number in revoked:
        raise Unfit("it was revoked")
    name = pem.common_name(certificate.subject)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    ours = [dns for dns in names.get_values_for_type(x509.DNSName) if dns.endswith(pem.SUFFIX)]
    if ours != [name + pem.SUFFIX]:
        raise Unfit(f"it names {name!r} and {ours}, not one party")
    return name


def _check_purposes(extensions: x509.Extensions, authority: x509.Extensions) -> None:
    """Raise ValueError unless a certificate may be used at both ends of a connection, and its authority may sign."""
    if any(entry.critical and isinstance(entry.value, x509.UnrecognizedExtension) for entry in extensions):
        raise ValueError("an unknown critical extension")
    if not authority.get_extension_for_class(x509.BasicConstraints).value.ca:
        raise ValueError("signed by something else than an authority")
    if not authority.get_extension_for_class(x509.KeyUsage).value.key_cert_sign:
        raise ValueError("signed by a key that may not sign")
    if extensions.get_extension_for_class(x509.BasicConstraints).value.ca:
        raise ValueError("an authority, not a party")
    if not extensions.get_extension_for_class(x509.KeyUsage).value.digital_signature:
        raise ValueError("a key that may not sign a handshake")
    if not set(extensions.get_extension_for_class(x509.ExtendedKeyUsage).value) >= BOTH_ENDS:
        raise ValueError("not for both ends of a connection")


@dataclass(eq=False, slots=True)
class Identity:
    """Who we are, and whom we believe. `now` stops the clock, for tests; without it the machine's clock counts."""

    name: str
    folder: Path
    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey = field(repr=False)
    key_path: Path
    ca: x509.Certificate
    now: datetime | None = None
    revoked: frozenset[int] = frozenset()
    _number: int = 0
    _stamp: tuple[int, int, int] | None = None

    @classmethod
    def load(cls, folder: Path, now: datetime | None = None) -> "Identity":
        """Read and check a party's folder; an error says in one sentence what is wrong with it."""
        path = folder / "party.pem"
        certificate, ca = pem.load_certificate(path), pem.load_certificate(folder / "ca.pem")
        key = _matching_key(folder, certificate)
        name = _own(path, certificate, ca, frozenset(), now)
        identity = cls(name, folder, certificate, pem.load_key(key), key, ca, now)
        identity.refresh()
        _own(path, certificate, ca, identity.revoked, now)
        return identity

    def refresh(self) -> bool:
        """Read the revocation list again if its file changed; a list that vanished, broke or grew older is an error."""
        path = self.folder / "crl.pem"
        status = path.stat() if path.exists() else None
        stamp = (status.st_mtime_ns, status.st_size, status.st_ino) if status else None
        if stamp == self._stamp:
            return False
        revocations = pem.load_list(path, self.ca)
        if pem.number(revocations) < self._number:
            raise ConfigError(f"The revocation list {path} is older than the one before it: get the newest.")
        self.revoked, self._number, self._stamp = pem.serials(revocations), pem.number(revocations), stamp
        return True

    @property
    def shown(self) -> bytes:
        """Our certificate, as peers see it."""
        return self.certificate.public_bytes(Encoding.PEM)

    def check(self, pem: bytes, name: str | None = None) -> str:
        """Return the name in a peer's certificate (PEM or DER), or raise Refused, whatever the bytes are."""
        return self._checked(pem, name)[0]

    def sign(self, data: bytes) -> bytes:
        """Sign a statement, so that a party that gets it through another knows whose it is."""
        return self.key.sign(STATEMENT + data, ec.ECDSA(hashes.SHA256()))

    def verify(self, pem: bytes, name: str | None, data: bytes, signature: bytes) -> str:
        """Return the name of the party that signed this statement, or raise Refused."""
        signer, key = self._checked(pem, name)
        try:
            key.verify(signature, STATEMENT + data, ec.ECDSA(hashes.SHA256()))
        except (InvalidSignature, TypeError, ValueError) as error:
            raise Refused(f"a statement of {signer} with a wrong signature") from error
        return signer

    def _checked(self, data: bytes, name: str | None) -> tuple[str, ec.EllipticCurvePublicKey]:
        try:
            self.refresh()
            if len(data) > pem.LIMIT:
                raise ValueError(f"more than {pem.LIMIT} bytes")
            read = x509.load_pem_x509_certificate if b"-----BEGIN" in data else x509.load_der_x509_certificate
            certificate = read(data)
            owner = examine(certificate, self.ca, self.revoked, self.now or datetime.now(UTC))
            if name is not None and owner != name:
                raise Unfit(f"it is of {owner}, not of {name}")
            return owner, pem.p256(certificate.public_key())
        except Exception as error:  # a stranger chose these bytes: whatever happens, it is refused
            raise Refused(str(error) or type(error).__name__) from error
