"""cutlayer keys: the certificates of a federation, from the first key to its revocation."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from cutlayer.errors import ConfigError

WARN_DAYS = 30
AuthorityFolder = Annotated[Path, Argument(metavar="CA-FOLDER", help="The authority's folder, from `keys init`.")]
PartyFolder = Annotated[Path, Argument(metavar="FOLDER", help="The party's folder, from `keys request`.")]
Json = Annotated[bool, Option("--json", help="Print one JSON object.")]

app = typer.Typer(
    help="""Make, sign, renew and revoke the certificates of a federation.

    One organisation keeps the authority (init, sign, revoke). Every party makes its own key (request, install,
    renew), which never leaves its machine: only a request travels one way and a certificate the other.
    """,
    no_args_is_help=True,
)


@app.command("init")
def init(
    folder: Annotated[Path, Argument(metavar="FOLDER", help="A new folder, for the authority alone.")],
    name: Annotated[str, Option(help="What to call the federation.")] = "our federation",
    days: Annotated[int, Option(help="How long the authority lasts.")] = 3650,
    json: Json = False,
) -> None:
    """Make the authority of a federation: its key, its certificate and an empty revocation list.

    Whoever holds ca.key decides who is a party: keep the folder on a machine of its own, and a copy offline.
    Every party gets ca.pem and, after each `keys revoke`, the new crl.pem.

    \b
    cutlayer keys init authority --name "bank and shops"
    """
    _require_cryptography()
    from cutlayer.net.trust import pem
    from cutlayer.net.trust.authority import Authority

    certificate = Authority.create(folder, name, days).certificate
    fingerprint = pem.fingerprint(pem.p256(certificate.public_key()))
    facts = {
        "folder": str(folder),
        "name": name,
        "fingerprint": fingerprint,
        "end": certificate.not_valid_after_utc.isoformat(),
    }
    _print(facts, json, f"Keep {folder / 'ca.key'} secret; give {folder / 'ca.pem'} to every party.")


@app.command("request")
def request(
    name: Annotated[str, Argument(metavar="NAME", help="The party: lowercase letters, digits and dashes, 1 to 40.")],
    out: Annotated[Path, Option(help="A new folder, on the party's own machine.")],
    json: Json = False,
) -> None:
    """Make a party's private key, and a request to be signed.

    Run it on the machine where the party will run: party.key never leaves it. Send NAME.csr to the authority
    and tell it the fingerprint by another way, by telephone say.

    \b
    cutlayer keys request bank --out bank
    """
    _require_cryptography()
    from cutlayer.net.trust import identity

    path, fingerprint = identity.request(out, name)
    _print({"name": name, "request": str(path), "fingerprint": fingerprint}, json, _advice(path))


@app.command("sign")
def sign(
    authority: AuthorityFolder,
    request: Annotated[Path, Argument(metavar="REQUEST.csr", help="What the party sent.")],
    days: Annotated[int, Option(help="How long the certificate lasts; never longer than the authority.")] = 365,
    name: Annotated[str | None, Option(help="Certify this name instead of the request's own.")] = None,
    address: Annotated[list[str] | None, Option(help="A host name or IP address of the party; repeat it.")] = None,
    renew: Annotated[bool, Option("--renew", help="The party has a valid certificate: give it a second one.")] = False,
    json: Json = False,
) -> None:
    """Sign a party's request: writes NAME.pem in the authority's folder.

    Compare the fingerprint shown with the one the party tells you before you hand NAME.pem over; if they differ,
    revoke it. With --renew the older certificate stays valid until it expires or is revoked by its serial number.

    \b
    cutlayer keys sign authority bank.csr
    """
    _require_cryptography()
    from dataclasses import asdict

    from cutlayer.net.trust import pem
    from cutlayer.net.trust.authority import Authority

    asked, _ = pem.load_request(request)
    entry = Authority(authority).sign(request, name=name, days=days, addresses=address or [], renew=renew)
    facts = {"asked": asked, **asdict(entry), "certificate": str(authority / f"{entry.name}.pem")}
    _print(facts, json, f"Compare the fingerprint with {entry.name}'s own, then send it the certificate and ca.pem.")


@app.command("renew")
def renew(folder: PartyFolder, json: Json = False) -> None:
    """Make a party's next key and its request, while the old ones stay in use.

    Send NAME.csr to the authority, which signs it with --renew; `keys install` then changes over. To keep the same
    key instead, have the old NAME.csr signed again.

    \b
    cutlayer keys renew bank
    """
    _require_cryptography()
    from cutlayer.net.trust import identity

    path, fingerprint = identity.renew(folder)
    _print({"name": path.stem, "request": str(path), "fingerprint": fingerprint}, json, _advice(path))


@app.command("install")
def install(
    folder: PartyFolder,
    certificate: Annotated[Path, Argument(metavar="CERT.pem", help="NAME.pem, from the authority.")],
    ca: Annotated[Path, Argument(metavar="CA.pem", help="ca.pem, from the authority.")],
    crl: Annotated[Path | None, Option(help="The authority's newest crl.pem.")] = None,
    json: Json = False,
) -> None:
    """Put a signed certificate in its place, once it fits the party's key and the authority.

    The change is one rename: the party has its old identity or its new one. A party that is running takes up a new
    crl.pem at once, a new certificate when it starts again.

    \b
    cutlayer keys install bank bank.pem ca.pem
    """
    _require_cryptography()
    from cutlayer.net.trust import identity

    identity.install(folder, certificate, ca, crl)
    _show_party(folder, json)


@app.command("revoke")
def revoke(
    authority: AuthorityFolder,
    which: Annotated[str, Argument(metavar="NAME|SERIAL", help="A party, or one certificate of `keys show`.")],
    json: Json = False,
) -> None:
    """Take certificates back: all valid ones of a party, or one by its serial number.

    It counts for a party once that party has the new crl.pem in its folder; running parties notice the file.

    \b
    cutlayer keys revoke authority shop
    """
    _require_cryptography()
    from cutlayer.net.trust.authority import Authority

    revoked = Authority(authority).revoke(which)
    facts = {
        "revoked": [entry.serial for entry in revoked],
        "name": revoked[0].name,
        "list": str(authority / "crl.pem"),
    }
    _print(facts, json, f"Send {authority / 'crl.pem'} to every party now.")


@app.command("show")
def show(
    folder: Annotated[Path, Argument(metavar="FOLDER", help="A party's folder, or the authority's.")],
    json: Json = False,
) -> None:
    """Say who a folder is, its fingerprint, when it expires, and whether it was revoked.

    The fingerprint is the SHA-256 of the public key: the same for a request and its certificate.

    \b
    cutlayer keys show bank
    """
    _require_cryptography()
    if not folder.is_dir():
        raise ConfigError(f"Expected a folder {folder}, from `cutlayer keys init` or `cutlayer keys request`.")
    if (folder / "ca.key").exists():
        _show_authority(folder, json)
    else:
        _show_party(folder, json)


def _show_authority(folder: Path, json: bool) -> None:
    from dataclasses import asdict

    from cutlayer.cli import show
    from cutlayer.net.trust import pem
    from cutlayer.net.trust.authority import Authority

    authority = Authority(folder)
    parties = [{**asdict(entry), "state": state, "days": _days(entry.end)} for entry, state in authority.states()]
    end, name = authority.certificate.not_valid_after_utc, pem.common_name(authority.certificate.subject)
    newest = {party["name"]: party["days"] for party in parties if party["state"] == "valid"}
    facts = {
        "name": name,
        "fingerprint": pem.fingerprint(pem.p256(authority.certificate.public_key())),
        "end": end.isoformat(),
        "warnings": [text for owner, days in {name: _days(end), **newest}.items() for text in _warnings(owner, days)],
    }
    if json:
        show.dump({**facts, "parties": parties})
        return
    rows = [(party["name"], party["state"], party["end"][:10], party["serial"]) for party in parties]
    show.table(f"signed by {name}", ["name", "state", "end", "serial"], rows)
    _print(facts, False)


def _show_party(folder: Path, json: bool) -> None:
    from cutlayer.net.trust import identity, pem

    if not (folder / "party.pem").exists():
        waiting = sorted(folder.glob("*.csr"))
        if not waiting:
            raise ConfigError(f"Expected the keys of an authority or of a party in {folder}; there are none.")
        name, key = pem.load_request(waiting[0])
        _print({"name": name, "fingerprint": pem.fingerprint(key), "state": "waiting"}, json, _advice(waiting[0]))
        return
    certificate, ca = pem.load_certificate(folder / "party.pem"), pem.load_certificate(folder / "ca.pem")
    name, end, state, problem = pem.common_name(certificate.subject), certificate.not_valid_after_utc, "valid", []
    try:
        identity.Identity.load(folder)
    except ConfigError as error:
        state, problem = "refused", [str(error)]
    listed = (folder / "crl.pem").exists()
    facts = {
        "name": name,
        "fingerprint": pem.fingerprint(pem.p256(certificate.public_key())),
        "serial": pem.serial(certificate),
        "end": end.isoformat(),
        "authority": pem.common_name(ca.subject),
        "state": state,
        "revoked": certificate.serial_number in pem.serials(pem.load_list(folder / "crl.pem", ca)) if listed else None,
        "warnings": problem or _warnings(name, _days(end)),
    }
    _print(facts, json, "" if listed else f"There is no revocation list: put the authority's crl.pem in {folder}.")


def _require_cryptography() -> None:
    try:
        import cryptography  # noqa: F401
    except ImportError as error:
        raise ConfigError('Keys need the package cryptography: pip install "cutlayer[net]".') from error


def _advice(path: Path) -> str:
    return f"Send {path} to the authority, and tell it the fingerprint by another way."


def _days(end: datetime | str) -> int:
    moment = datetime.fromisoformat(end) if isinstance(end, str) else end
    return (moment - datetime.now(UTC)).days


def _warnings(name: str, days: int) -> list[str]:
    if days >= WARN_DAYS:
        return []
    return [f"{name} expires in {days} days: renew it." if days >= 0 else f"{name} has expired."]


def _print(facts: Mapping[str, Any], json: bool, advice: str = "") -> None:
    from cutlayer.cli import show

    if json:
        show.dump(dict(facts))
        return
    for key, value in facts.items():
        if key != "warnings":
            text = ", ".join(value) if isinstance(value, list) else "unknown" if value is None else value
            typer.echo(f"{key:<12}{text}")
    for text in (*facts.get("warnings", ()), advice):
        if text:
            typer.echo(text)
