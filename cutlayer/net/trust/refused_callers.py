"""Door: notices who knocks and never proves who it is.

A stranger that fails the TLS handshake never reaches Python: gRPC offers no hook for it, and its own log lines carry no
address. So ask the kernel. Linux tells whoever listens about every TCP connection that ends (sock_diag, what `ss -E`
shows; no privilege is needed), and one that ends before it had a stream was a stranger's. Unlike looking at the table
of connections now and then, this misses no port scan that is over within a millisecond.
"""

import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from ipaddress import IPv6Address, ip_address
from urllib.parse import unquote

SOCK_DIAG = 4  # the netlink family; its groups 1 and 3 tell of TCP connections that end, over IPv4 and IPv6
GROUPS = 1 << 0 | 1 << 2
HEADER = struct.Struct("=16xB3x")  # of netlink, then the address family and what does not matter here
PORTS = struct.Struct("!HH16s16s")  # ours, theirs; our address, theirs
MOST = 4096  # ends of streams that are remembered

End = tuple[str, int]  # an address and a port


def end_of(peer: str) -> End:
    """Read what gRPC calls a peer: "ipv4:10.0.0.7:50312" or "ipv6:%5B::1%5D:50312"."""
    address, _, port = unquote(peer).partition(":")[2].rpartition(":")
    return address.strip("[]"), int(port) if port.isdigit() else 0


class Door:
    """Calls `stranger(address)` for every connection to a port that ends without `knows(end)`. Silent outside Linux."""

    def __init__(self, port: int, stranger: Callable[[str], None]) -> None:
        self._port, self._stranger = port, stranger
        self._known: dict[End, None] = {}  # in order of arrival
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._events: socket.socket | None = None
        with suppress(OSError, AttributeError):  # another system, or a kernel without sock_diag
            self._events = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, SOCK_DIAG)
            self._events.bind((0, GROUPS))
            self._events.settimeout(0.5)
            threading.Thread(target=self._watch, args=(self._events,), daemon=True).start()

    def knows(self, end: End) -> None:
        """The connection from this end got as far as a stream."""
        with self._lock:
            self._known[end] = None
            if len(self._known) > MOST:
                del self._known[next(iter(self._known))]

    def close(self) -> None:
        """Watch no longer."""
        self._closed.set()

    def _watch(self, events: socket.socket) -> None:
        with events:
            while not self._closed.is_set():
                try:
                    data, sender = events.recvfrom(4096)
                except OSError:  # nothing came, or more than fits: those who are left out will knock again
                    continue
                if sender[0] == 0 and (end := stranger_of(data, self._port)) and not self._forget(end):
                    self._stranger(end[0])

    def _forget(self, end: End) -> bool:
        with self._lock:
            return self._known.pop(end, self) is None


def stranger_of(data: bytes, port: int) -> End | None:
    """Who was at the other end of a connection that ended, if this end was our port."""
    if len(data) < HEADER.size + PORTS.size:
        return None
    (family,) = HEADER.unpack_from(data)
    ours, theirs, _, address = PORTS.unpack_from(data, HEADER.size)
    if ours != port or not theirs:
        return None
    found = ip_address(address if family == socket.AF_INET6 else address[:4])
    mapped = found.ipv4_mapped if isinstance(found, IPv6Address) else None
    return str(mapped or found), theirs
