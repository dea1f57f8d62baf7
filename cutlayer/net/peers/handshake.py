"""Handshake: the first note on a stream says who one is, which manifest one has, and what one has seen of the other.

The dialer says hello with a nonce. The listener answers with a welcome, which holds its certificate and a signature
over the nonce (gRPC shows a dialer no certificate, so this is how it notices that the listener's was revoked), or with
a refusal: readable differences for a party of the federation, and nothing but "refused" for anyone else.
"""

import json
import re
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, TypeVar

from cutlayer.data.task import NAME
from cutlayer.errors import ProtocolError
from cutlayer.net.peers.differences import VALUE_LIMIT, printable
from cutlayer.net.trust.identity import Identity
from cutlayer.net.wire.packet import VERSION, Packet, note

TOKEN = re.compile("[0-9a-f]{32}")  # a process, or a nonce
REFUSED = "refused"  # topic of the answer to another manifest


@dataclass(frozen=True, slots=True)
class Hello:
    """A dialer's first note."""

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


Opening = TypeVar("Opening", Hello, Welcome)


def opening_packet(opening: Hello | Welcome) -> Packet:
    """Hello or welcome as a packet; it has no number in the link."""
    return note(type(opening).__name__.lower(), json.dumps(asdict(opening)))


def refusal_packet(lines: list[str]) -> Packet:
    """The answer to a party with another manifest."""
    return note(REFUSED, json.dumps({"differences": [line[:VALUE_LIMIT] for line in lines]}))


def read_refusal(text: str) -> list[str]:
    """The differences that a refusal names, in lines that are safe to print."""
    try:
        return [printable(line) for line in json.loads(text)["differences"]]
    except (ValueError, TypeError, KeyError, RecursionError):
        return ["the label party does not say where"]


def read_opening(packet: Packet, kind: type[Opening]) -> Opening:
    """Read a hello or a welcome; anything else is refused."""
    try:
        received = packet.frame.note
        if packet.version != VERSION or received.topic != kind.__name__.lower():
            raise ValueError(f"version {packet.version}, {received.topic[:20]!r}")
        facts = json.loads(received.text)
        expected = {field.name: field.type for field in fields(kind)}
        if set(facts) != set(expected) or any(type(facts[name]) is not expected[name] for name in expected):
            raise ValueError("other facts than expected")
        _check(facts)
        return kind(**facts)
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise ProtocolError(f"Expected a {kind.__name__.lower()} of protocol version {VERSION}: {error}.") from error


def _check(facts: Mapping[str, Any]) -> None:
    """Accept only tokens, numbers and names of our own form: some are printed, compared or signed."""
    zeros = "0" * 32
    tokens = [facts["incarnation"], facts.get("nonce", zeros), facts.get("knows") or zeros]
    if not all(TOKEN.fullmatch(token) for token in tokens) or not 0 <= facts["seen"] < 1 << 64:
        raise ValueError("other facts than expected")
    if not NAME.fullmatch(facts.get("name", "listener")):
        raise ValueError("not a name")


def welcome_statement(hello: Hello, welcome: Welcome, label_party: str) -> bytes:
    """What the listener signs: that it answers this dialer now."""
    return f"welcome {label_party} to {hello.name} {hello.nonce} {welcome.incarnation}".encode()


def verify_welcome(identity: Identity, hello: Hello, welcome: Welcome, label_party: str) -> None:
    """Check the listener's certificate, and its signature over our nonce."""
    try:
        certificate, signature = welcome.certificate.encode(), bytes.fromhex(welcome.signature)
    except ValueError as error:
        raise ProtocolError("The certificate was refused.") from error
    identity.verify(certificate, label_party, welcome_statement(hello, welcome, label_party), signature)
