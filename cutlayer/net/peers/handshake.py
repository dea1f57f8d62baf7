"""The first words on a stream: who one is, which manifest one has, and what one has seen of the other.

The dialer says hello with a nonce; the listener answers `welcome`, with its certificate and a signature over the
nonce (gRPC shows a dialer no certificate, so this is how it notices that the listener's was revoked), or
`refused`, with a readable difference for a party of the federation and nothing but "refused" for anyone else.
"""

import json
import re
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from cutlayer.data.task import NAME
from cutlayer.errors import ProtocolError
from cutlayer.net.trust.identity import Identity
from cutlayer.net.wire.packet import VERSION, Packet, note

TOKEN = re.compile("[0-9a-f]{32}")  # a process, or a nonce
SHOWN = 500  # characters of a value in a line about manifests
MANY = 50  # such lines


@dataclass(frozen=True, slots=True)
class Hello:
    """A dialer's first word."""

    name: str
    incarnation: str  # of the dialer's process
    knows: str  # the listener's process that it talked to last, or ""
    seen: int  # the last frame it saw of that process
    manifest: str  # as JSON
    nonce: str = field(default_factory=lambda: secrets.token_hex(16))


@dataclass(frozen=True, slots=True)
class Welcome:
    """A listener's answer."""

    incarnation: str  # of the listener's process
    goes_on: bool  # the two processes know each other
    seen: int  # the last frame that the listener saw
    certificate: str = ""
    signature: str = ""


def word(topic: str, facts: Any) -> Packet:
    """A first word as a packet; it stands outside of the link's numbers."""
    return note(topic, json.dumps(facts))


def say(first: Hello | Welcome) -> Packet:
    """Hello or welcome as a packet."""
    return word(type(first).__name__.lower(), asdict(first))


def heard(packet: Packet, kind: type[Hello] | type[Welcome]) -> Any:
    """Read a first word; anything else is refused, without saying why."""
    try:
        said = packet.frame.note
        if packet.version != VERSION or said.topic != kind.__name__.lower():
            raise ValueError(f"version {packet.version}, {said.topic[:20]!r}")
        facts = json.loads(said.text)
        wanted = {one.name: one.type for one in fields(kind)}
        if set(facts) != set(wanted) or any(type(facts[name]) is not wanted[name] for name in wanted):
            raise ValueError("other facts than expected")
        _check(facts)
        return kind(**facts)
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise ProtocolError(f"Expected a {kind.__name__.lower()} of protocol version {VERSION}: {error}.") from error


def _check(facts: Mapping[str, Any]) -> None:
    """Numbers and names of the form that we make ourselves: some are printed, compared or signed."""
    nothing = "0" * 32
    tokens = [facts["incarnation"], facts.get("nonce", nothing), facts.get("knows") or nothing]
    if not all(TOKEN.fullmatch(one) for one in tokens) or not 0 <= facts["seen"] < 1 << 64:
        raise ValueError("other facts than expected")
    if not NAME.fullmatch(facts.get("name", "listener")):
        raise ValueError("not a name")


def answer(hello: Hello, welcome: Welcome, label_party: str) -> bytes:
    """What the listener signs: that it, now, answers this dialer."""
    return f"welcome {label_party} to {hello.name} {hello.nonce} {welcome.incarnation}".encode()


def differences(ours: Mapping[str, Any], theirs: Mapping[str, Any], who: str) -> list[str]:
    """A line for every setting that two manifests have different."""
    lines = []
    for key in sorted({*ours, *theirs}):
        one, other = ours.get(key, "(nothing)"), theirs.get(key, "(nothing)")
        if isinstance(one, dict) and isinstance(other, dict):
            lines += [f"{_key(key)}.{line}" for line in differences(one, other, who)]
        elif one != other:
            lines.append(f"{_key(key)}: here {_spelt(one)}, at {who} {_spelt(other)}")
        if len(lines) >= MANY:
            return [*lines[:MANY], "and more"]
    return lines


def printable(words: Any) -> str:
    """A peer's words on one short line, without anything that a terminal would obey."""
    return "".join(one if one.isprintable() else "?" for one in str(words)[:500])


def _spelt(value: Any) -> str:
    """A setting in one short printable line, whatever a peer put into it."""
    try:
        text = json.dumps(value)
    except RecursionError:
        text = "(something deep)"
    return text if len(text) <= SHOWN else text[:SHOWN] + "..."


def _key(key: str) -> str:
    return key if NAME.fullmatch(key) else _spelt(key)


def proven(identity: Identity, hello: Hello, welcome: Welcome, label_party: str) -> None:
    """Check the listener's signature over our nonce."""
    try:
        certificate, signature = welcome.certificate.encode(), bytes.fromhex(welcome.signature)
    except ValueError as error:
        raise ProtocolError("The certificate was refused.") from error
    identity.verify(certificate, label_party, answer(hello, welcome, label_party), signature)
