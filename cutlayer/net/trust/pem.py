"""PEM files: keys, certificates, requests and revocation lists, checked before they are parsed.

A private key is created readable by its owner only, and no key is ever overwritten.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from re import fullmatch

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import NameOID

from cutlayer.errors import ConfigError
from cutlayer.files import write_bytes

LIMIT = 64 * 1024  # bytes of a certificate, request or key
LIST_LIMIT = 1024 * 1024  # bytes of a revocation list: some 20,000 serial numbers
SUFFIX = ".cutlayer"  # a party's name in TLS: gRPC's ssl_target_name_override is NAME.cutlayer
RESERVED = ("ca", "crl")  # their NAME.pem would replace the authority's own files
BROKEN = (ValueError, TypeError, UnsupportedAlgorithm, x509.ExtensionNotFound, x509.DuplicateExtension)  # by parsers


def party_name(name: str) -> str:
    """Return the name if it is a good file name, a good DNS label and hard to misread; refuse others."""
    if not fullmatch(r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?", name) or name in RESERVED:
        raise ConfigError(
            f"Expected a party's name of 1 to 40 lowercase letters, digits and inner dashes, "
            f"other than {' and '.join(RESERVED)}, got {name[:60]!r}."
        )
    return name


def subject(name: str) -> x509.Name:
    """A distinguished name that holds one common name."""
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def common_name(name: x509.Name) -> str:
    """The one common name, or an empty string."""
    names = name.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(names[0].value) if len(names) == 1 else ""


def fingerprint(key: ec.EllipticCurvePublicKey) -> str:
    """SHA-256 of a public key: the same for a request and its certificate, so that people can compare the two."""
    return sha256(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).hexdigest()


def serial(certificate: x509.Certificate) -> str:
    """The serial number in capitals, as openssl prints it; no party's name has capitals."""
    return f"{certificate.serial_number:040X}"


def p256(key: object) -> ec.EllipticCurvePublicKey:
    """Narrow a public key to the one kind used here."""
    if isinstance(key, ec.EllipticCurvePublicKey) and isinstance(key.curve, ec.SECP256R1):
        return key
    raise ValueError("its key is not of the kind P-256")


def read(path: Path, limit: int = LIMIT) -> bytes:
    """The bytes of a file; a missing or huge one is refused before anything is parsed."""
    if not path.is_file():
        raise ConfigError(f"Expected a file {path}, and there is none; `cutlayer keys --help` says what makes it.")
    with path.open("rb") as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise ConfigError(f"Expected the file {path} to hold at most {limit} bytes; give the right file.")
    return data


def load_certificate(path: Path) -> x509.Certificate:
    """Parse one certificate; who signed it is not checked here."""
    try:
        return x509.load_pem_x509_certificate(read(path))
    except BROKEN as error:
        raise ConfigError(f"Expected a certificate (PEM) in {path}, which cannot be read as one.") from error


def load_request(path: Path) -> tuple[str, ec.EllipticCurvePublicKey]:
    """Name and key of a request, after checking that its maker holds the key."""
    try:
        request = x509.load_pem_x509_csr(read(path))
        key = p256(request.public_key())
        if not request.is_signature_valid:
            raise ValueError("its signature is wrong")
        return common_name(request.subject), key
    except BROKEN as error:
        raise ConfigError(
            f"Expected a request signed by its own P-256 key in {path}: make one with `cutlayer keys request`."
        ) from error


def load_list(path: Path, ca: x509.Certificate) -> x509.CertificateRevocationList:
    """Parse a revocation list, and check that this authority signed it."""
    try:
        revocations = x509.load_pem_x509_crl(read(path, LIST_LIMIT))
        if revocations.issuer != ca.subject or not revocations.is_signature_valid(p256(ca.public_key())):
            raise ValueError("it was signed by another key")
        number(revocations)
    except BROKEN as error:
        raise ConfigError(
            f"The revocation list {path} is damaged or of another authority: get crl.pem from your own again."
        ) from error
    return revocations


def number(revocations: x509.CertificateRevocationList) -> int:
    """The running number of a list: a later one has a larger one."""
    return revocations.extensions.get_extension_for_class(x509.CRLNumber).value.crl_number


def serials(revocations: x509.CertificateRevocationList | None) -> frozenset[int]:
    """The serial numbers on a list; none where there is no list."""
    return frozenset(() if revocations is None else (entry.serial_number for entry in revocations))


def load_key(path: Path) -> ec.EllipticCurvePrivateKey:
    """Read a private key; one that other users of the machine may read is refused."""
    data = read(path)
    if os.name == "posix" and (mode := path.stat().st_mode & 0o777) & 0o077:
        raise ConfigError(
            f"Expected the private key {path} to be readable by its owner only, got mode {mode:o}: "
            "run chmod 600 on it, and make a new key if others use this machine."
        )
    try:
        key = load_pem_private_key(data, None)
        if isinstance(key, ec.EllipticCurvePrivateKey) and p256(key.public_key()):
            return key
        raise ValueError("it is of another kind")
    except BROKEN as error:
        raise ConfigError(f"Expected a P-256 private key (PEM, no password) in {path}; restore it.") from error


def key_bytes(key: ec.EllipticCurvePrivateKey) -> bytes:
    """A private key as PEM."""
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def write_key(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    """Write a private key that only its owner may read, from its first byte on, and never over another one."""
    try:
        write_bytes(path, key_bytes(key), private=True, overwrite=False)
    except FileExistsError as error:
        raise ConfigError(f"The private key {path} exists already and is never overwritten.") from error


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """A new folder of mode 0700 that appears under its name when all is in it, or not at all."""
    if folder.exists() or folder.is_symlink():
        raise ConfigError(f"The folder {folder} exists already; choose another.")
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".new-"))
    try:
        yield temporary
        temporary.rename(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
