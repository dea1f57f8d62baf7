"""Strangers at the label party's port: each function tries one thing, and returns what came back."""

import random
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cutlayer.net.peers.handshake import Hello, opening_packet
from cutlayer.net.trust.authority import Authority
from cutlayer.net.trust.credentials import channel_options, grpc
from cutlayer.net.wire import schema
from cutlayer.net.wire.packet import VERSION, Packet
from tests.helpers.stranger_scene import SECONDS, Scene, enrol
from tests.helpers.waiting import wait_for

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"  # and empty settings
FLOOD = """
import select, socket, sys, time
port, count, seconds, again = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), sys.argv[4] == "again"
held, closed, end, poll = {}, 0, time.monotonic() + seconds, select.epoll()

def connect():
    connection = socket.socket()
    connection.setblocking(False)
    connection.connect_ex(("127.0.0.1", port))
    held[connection.fileno()] = connection
    poll.register(connection, select.EPOLLIN | select.EPOLLRDHUP)

for number in range(count):
    connect()
    if number % 50 == 49:
        time.sleep(0.005)
print("open", flush=True)
while time.monotonic() < end and (again or held):
    for file, _ in poll.poll(0.1):
        poll.unregister(file)
        held.pop(file).close()
        closed += 1
        if again:
            connect()
print(closed, len(held), flush=True)
"""


def handshake(scene: Scene, keys: Path | None, version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> str:
    """TLS by Python's own ssl, up to HTTP/2; what came back."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(scene.authority.folder / "ca.pem")
    context.minimum_version = context.maximum_version = version
    context.set_alpn_protocols(["h2"])
    if keys:
        context.load_cert_chain(keys / "party.pem", keys / "party.key")
    try:
        with (
            socket.create_connection(("127.0.0.1", scene.port), SECONDS) as plain,
            context.wrap_socket(plain, server_hostname="bank.cutlayer") as wrapped,
        ):
            wrapped.sendall(PREFACE)
            return "an answer" if wrapped.recv(9) else "nothing"
    except (ssl.SSLError, ConnectionError):
        return "nothing"


def throw(scene: Scene, data: bytes) -> str:
    """Bytes without TLS; what came back."""
    with socket.create_connection(("127.0.0.1", scene.port), SECONDS) as plain:
        try:
            plain.sendall(data)
            plain.shutdown(socket.SHUT_WR)
            answer = plain.recv(1 << 16)
        except ConnectionError:
            answer = b""
    return "nothing" if not answer else "a TLS alert" if answer[0] == 21 and len(answer) <= 7 else "an answer"


def join(scene: Scene, keys: Path, *packets: Any) -> str:
    """Past TLS with a certificate of the authority, then these packets as the opening; what came back."""
    key, chain, ca = ((keys / name).read_bytes() for name in ("party.key", "party.pem", "ca.pem"))
    credentials = grpc.ssl_channel_credentials(root_certificates=ca, private_key=key, certificate_chain=chain)
    done = threading.Event()

    def requests() -> Iterator[bytes]:
        yield from (packet if isinstance(packet, bytes) else packet.to_bytes() for packet in packets)
        done.wait(SECONDS)

    options = [*channel_options("bank"), ("grpc.use_local_subchannel_pool", 1)]
    with grpc.secure_channel(f"127.0.0.1:{scene.port}", credentials, options) as channel:
        try:
            first = next(channel.stream_stream(schema.JOIN)(requests(), timeout=SECONDS))
            return str(Packet.from_bytes(first).frame.note.topic)
        except grpc.RpcError as error:
            return f"{error.code().name}: {error.details()}"
        finally:
            done.set()


def hello(name: str, **changes: Any) -> Packet:
    """A valid hello, but for some changes to its head."""
    packet = opening_packet(Hello(name, "0" * 32, "", 0, '{"parties": ["bank", "shop", "cafe", "gone"]}'))
    return packet._replace(**changes)


def other_authority(scene: Scene) -> Path:
    """Keys of a shop of another federation."""
    if not (scene.folder / "other").exists():
        enrol(Authority.create(scene.folder / "other", "ours"), scene.folder / "other shop", "shop")
    return scene.folder / "other shop"


def expired(scene: Scene) -> Path:
    """Keys of a party whose certificate ended three months ago."""
    folder = scene.folder / "late"
    if not folder.exists():
        enrol(scene.authority, folder, "late", datetime.now(UTC) - timedelta(days=100), days=10)
    return folder


def revoked(scene: Scene) -> Path:
    """Keys of a party that is revoked now, while the bank runs."""
    crl = scene.keys["bank"] / "crl.pem"
    if not crl.exists():
        scene.authority.revoke("gone")
        crl.write_bytes((scene.authority.folder / "crl.pem").read_bytes())
    return scene.keys["gone"]


def scan(scene: Scene) -> str:
    """Connect and hang up."""
    socket.create_connection(("127.0.0.1", scene.port), SECONDS).close()
    return "nothing"


def slow_reader(scene: Scene) -> str:
    """A party past TLS that reads nothing, not even a ping, and leaves its stream without a word."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(scene.authority.folder / "ca.pem")
    context.set_alpn_protocols(["h2"])
    keys = scene.keys["cafe"]
    context.load_cert_chain(keys / "party.pem", keys / "party.key")
    with (
        socket.create_connection(("127.0.0.1", scene.port), SECONDS) as plain,
        context.wrap_socket(plain, server_hostname="bank.cutlayer") as wrapped,
    ):
        wrapped.sendall(PREFACE)
        with suppress(AssertionError):
            wait_for(lambda: hung_up(wrapped), SECONDS)
        return "cut off" if hung_up(wrapped) else "still connected"


def hung_up(connection: socket.socket) -> bool:
    """Whether the other end closed, though we read nothing: the kernel knows."""
    return connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] != 1  # ESTABLISHED


def flood(scene: Scene, count: int, seconds: float, again: bool = False) -> "subprocess.Popen[str]":
    """Another process that holds so many connections without a word; they are open when this returns."""
    command = [sys.executable, "-c", FLOOD, str(scene.port), str(count), str(seconds), "again" if again else "once"]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    child.stdout.readline()
    return child


def half_open(scene: Scene, count: int) -> str:
    """Thousands of connections that never say a word, until all were cut off."""
    child = flood(scene, count, SECONDS)
    closed, left = child.communicate(timeout=3 * SECONDS)[0].split()
    return "cut off" if closed == str(count) else f"{left} still connected"


def newcomer(scene: Scene) -> str:
    """How long an honest party takes to get in."""
    began = time.monotonic()
    mailbox, dialer = scene.dial("cafe")
    with suppress(AssertionError):
        wait_for(lambda: not mailbox.events.empty(), SECONDS)
    arrived = not mailbox.events.empty()
    dialer.close()
    return f"in after {time.monotonic() - began:.1f} s" if arrived else "not in"


STRANGERS: dict[str, Callable[[Scene], str]] = {
    "no certificate": lambda scene: handshake(scene, None),
    "another authority's certificate": lambda scene: handshake(scene, other_authority(scene)),
    "an expired certificate": lambda scene: handshake(scene, expired(scene)),
    "TLS 1.2": lambda scene: handshake(scene, scene.keys["cafe"], ssl.TLSVersion.TLSv1_2),
    "plain HTTP": lambda scene: throw(scene, b"GET / HTTP/1.1\r\nHost: bank\r\n\r\n"),
    "HTTP/2 without TLS": lambda scene: throw(scene, PREFACE),
    "random bytes": lambda scene: throw(scene, random.randbytes(5000)),
    "a broken TLS record": lambda scene: throw(scene, b"\x16\x03\x01\xff\xff" + random.randbytes(5000)),
    "a port scan": scan,
    "a revoked certificate": lambda scene: join(scene, revoked(scene), hello("gone")),
    "another party's name": lambda scene: join(scene, scene.keys["cafe"], hello("shop")),
    "a name outside the run": lambda scene: join(scene, scene.keys["guest"], hello("guest")),
    "another protocol version": lambda scene: join(scene, scene.keys["cafe"], hello("cafe", version=VERSION + 1)),
    "no hello but a number": lambda scene: join(scene, scene.keys["cafe"], Packet(number=1)),
    "bytes that are no frame": lambda scene: join(scene, scene.keys["cafe"], b"\x04\0\0\0" + b"\xff" * 100),
}
SLOW: dict[str, Callable[[Scene], str]] = {
    "a silent party": lambda scene: join(scene, scene.keys["cafe"]),
    "a slow reader": slow_reader,
}
