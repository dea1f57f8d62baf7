"""Strangers at the label party's port while two honest parties go on: `python tests/long/strangers.py`.

Every stranger must be refused with a text that is always the same, the honest exchange must go on, and memory must not
keep growing. Prints a table and writes results/strangers.csv.
tests/net/trust/test_strangers.py knocks with the same hands.
"""

import csv
import random
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Any

from cutlayer.net.peers.dial import Dial
from cutlayer.net.peers.handshake import Hello, say
from cutlayer.net.peers.hub import Hub
from cutlayer.net.peers.mailbox import Joined, Post, Said
from cutlayer.net.trust import identity
from cutlayer.net.trust.authority import Authority
from cutlayer.net.trust.credentials import channel_options, grpc
from cutlayer.net.trust.identity import Identity
from cutlayer.net.wire import schema
from cutlayer.net.wire.packet import VERSION, Packet

RESULTS = Path(__file__).parents[2] / "results" / "strangers.csv"
PARTIES = ("bank", "shop", "cafe", "gone")
RUN = b"r" * 32
MANIFEST = {"parties": list(PARTIES)}
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"  # and empty settings
SECONDS = 60.0
FLOOD = """
import socket, sys, time, select
port, count, seconds, again = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), sys.argv[4] == "again"
def knock():
    one = socket.socket(); one.setblocking(False); one.connect_ex(("127.0.0.1", port)); return one
held, closed, end = {}, 0, time.monotonic() + seconds
watch = select.epoll()
def take():
    one = knock(); held[one.fileno()] = one; watch.register(one, select.EPOLLIN | select.EPOLLRDHUP)
for number in range(count):
    take()
    if number % 50 == 49: time.sleep(0.005)
print("open", flush=True)
while time.monotonic() < end and (again or held):
    for file, _ in watch.poll(0.1):
        watch.unregister(file); held.pop(file).close(); closed += 1
        if again: take()
print(closed, len(held), flush=True)
"""


class Scene:
    """The bank listens, the shop is in, and both exchange words without end."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        year_ago = datetime.now(UTC) - timedelta(days=365)
        self.authority = Authority.create(folder / "authority", "ours", now=year_ago)
        self.keys = {name: enrol(self.authority, folder / name, name) for name in (*PARTIES, "guest")}
        self.lines: list[str] = []
        self.bank = Post("bank", "bank", RUN, PARTIES[1:], PARTIES, Identity.load(self.keys["bank"]))
        self.hub = Hub(self.bank, "127.0.0.1:0", MANIFEST, self.lines.append)
        self.port = self.hub.port
        self.shop, self._dial = self.dial("shop")
        for post, peer in ((self.shop, "bank"), (self.bank, "shop")):
            assert isinstance(post.events.get(timeout=SECONDS), Joined)
            post.links[peer].greet()  # what is said before that goes to nobody
        self.exchanges, self.worst = 0, 0.0
        self.disturbed: list[Any] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._exchange, daemon=True)
        self._thread.start()

    def dial(self, name: str) -> tuple[Post, Dial]:
        """An honest party dials."""
        post = Post(name, "bank", RUN, ("bank",), PARTIES, Identity.load(self.keys[name]))
        return post, Dial(post, f"127.0.0.1:{self.port}", MANIFEST, self.lines.append)

    def __enter__(self) -> "Scene":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stop.set()
        self._thread.join(SECONDS)
        self._dial.close()
        self.hub.close()

    def _exchange(self) -> None:
        while not self._stop.is_set():
            began = time.monotonic()
            for sender, receiver, name in ((self.shop, self.bank, "bank"), (self.bank, self.shop, "shop")):
                sender.tell(name, "word", number=self.exchanges)
                while not self._stop.is_set():
                    if receiver.events.empty():
                        time.sleep(0.001)
                        continue
                    event = receiver.events.get()
                    if isinstance(event, Said):
                        break
                    if event.peer in ("bank", "shop"):
                        self.disturbed.append(event)
            self.worst = max(self.worst, time.monotonic() - began)
            self.exchanges += 1
            time.sleep(0.005)

    def goes_on(self, more: int = 3) -> bool:
        """Whether the honest parties exchange some more words soon."""
        wanted, end = self.exchanges + more, time.monotonic() + SECONDS
        while self.exchanges < wanted and time.monotonic() < end:
            time.sleep(0.01)
        return self.exchanges >= wanted


def enrol(authority: Authority, folder: Path, name: str, now: datetime | None = None, days: int = 365) -> Path:
    """A party's folder, without the checks of `install`: its certificate may be expired."""
    request, _ = identity.request(folder, name)
    authority.sign(request, now=now, days=days)
    (folder / "party.pem").write_bytes((authority.folder / f"{name}.pem").read_bytes())
    (folder / "ca.pem").write_bytes((authority.folder / "ca.pem").read_bytes())
    return folder


def resident() -> int:
    """Bytes of this process that are in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def knock(scene: Scene, keys: Path | None, version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> str:
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


def join(scene: Scene, keys: Path, *words: Any) -> str:
    """Past TLS with a certificate of the authority, then these frames as first words; what came back."""
    key, chain, ca = ((keys / name).read_bytes() for name in ("party.key", "party.pem", "ca.pem"))
    credentials = grpc.ssl_channel_credentials(root_certificates=ca, private_key=key, certificate_chain=chain)
    done = threading.Event()

    def requests() -> Iterator[bytes]:
        yield from (one if isinstance(one, bytes) else one.to_bytes() for one in words)
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
    """A valid first word, but for some changes to its head."""
    packet = say(Hello(name, "0" * 32, "", 0, '{"parties": ["bank", "shop", "cafe", "gone"]}'))
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
        end = time.monotonic() + SECONDS
        while time.monotonic() < end and not hung_up(wrapped):
            time.sleep(0.1)
        return "cut off" if hung_up(wrapped) else "still connected"


def hung_up(one: socket.socket) -> bool:
    """Whether the other end closed, though we read nothing: the kernel knows."""
    return one.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] != 1  # ESTABLISHED


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


STRANGERS: dict[str, Callable[[Scene], str]] = {
    "no certificate": lambda scene: knock(scene, None),
    "another authority's certificate": lambda scene: knock(scene, other_authority(scene)),
    "an expired certificate": lambda scene: knock(scene, expired(scene)),
    "TLS 1.2": lambda scene: knock(scene, scene.keys["cafe"], ssl.TLSVersion.TLSv1_2),
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


@dataclass
class Row:
    """One line of the table."""

    stranger: str
    tries: int
    got: str
    exchanges: int
    worst_ms: float
    memory_mib: float


def measure(scene: Scene, name: str, act: Callable[[Scene], str], tries: int, knocks: int = 1) -> Row:
    """Let a stranger try, and see how the honest parties fare meanwhile."""
    before, count, scene.worst = resident(), scene.exchanges, 0.0
    got = sorted({act(scene) for _ in range(tries)})
    assert scene.goes_on(), f"the honest parties stopped: {scene.disturbed}"
    spent = (resident() - before) / (1 << 20)
    row = Row(name, tries * knocks, " / ".join(got), scene.exchanges - count, scene.worst * 1000, spent)
    print(
        f"{name:34} {row.tries:6} {row.got:40} {row.exchanges:6} {row.worst_ms:8.1f} {row.memory_mib:8.1f}", flush=True
    )
    return row


def nobody(scene: Scene) -> str:
    """Five seconds without strangers, to compare with."""
    time.sleep(5)
    return "-"


def newcomer(scene: Scene) -> str:
    """How long an honest party takes to get in."""
    began = time.monotonic()
    post, dial = scene.dial("cafe")
    try:
        while time.monotonic() - began < SECONDS:
            if not post.events.empty():
                return f"in after {time.monotonic() - began:.1f} s"
            time.sleep(0.02)
        return "not in"
    finally:
        dial.close()


def main() -> None:
    """All strangers, one after another."""
    with tempfile.TemporaryDirectory() as folder, Scene(Path(folder)) as scene:
        assert scene.goes_on()
        print(f"{'stranger':34} {'tries':>6} {'what it gets':40} {'words':>6} {'worst ms':>8} {'MiB':>8}")
        rows = [measure(scene, "nobody", nobody, 1)]
        rows += [measure(scene, name, act, 100) for name, act in STRANGERS.items()]
        rows += [measure(scene, name, act, 1) for name, act in SLOW.items()]
        for turn in ("", ", again", ", a third time"):
            rows.append(measure(scene, f"10,000 half-open{turn}", lambda scene: half_open(scene, 10_000), 1, 10_000))
        rows.append(measure(scene, "an honest newcomer", newcomer, 1))
        child = flood(scene, 2_000, 40, again=True)
        rows.append(measure(scene, "the same, 2,000 held half-open", newcomer, 1))
        child.communicate(timeout=SECONDS)
        rows.append(measure(scene, "the same, right after that", newcomer, 1))
        print(f"events that disturbed the honest parties: {len(scene.disturbed)}")
        print(f"lines in the log: {len(scene.lines)}", *scene.lines, sep="\n  ")
    with RESULTS.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["stranger", "tries", "got", "honest_exchanges", "worst_exchange_ms", "memory_growth_mib"])
        for row in rows:
            numbers = (f"{row.worst_ms:.1f}", f"{row.memory_mib:.1f}")
            writer.writerow([row.stranger, row.tries, row.got, row.exchanges, *numbers])


if __name__ == "__main__":
    main()
