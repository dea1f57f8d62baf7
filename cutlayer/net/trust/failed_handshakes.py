"""Failed handshakes: notices who connects and never proves who it is.

A stranger that fails the TLS handshake never reaches Python: gRPC offers no hook for it, and its own log lines carry no
address. So ask the kernel: Linux tells whoever listens about every TCP connection that ends (sock_diag, what `ss -E`
shows; no privilege is needed), and one that ends before it had a stream was a stranger's. Unlike a look at the table of
connections now and then, this misses no port scan that is over within a millisecond.
"""

import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from ipaddress import IPv6Address, ip_address
from urllib.parse import unquote

SOCK_DIAG = 4  # the netlink family; its groups 1 and 3 report TCP connections that end, over IPv4 and IPv6
GROUPS = 1 << 0 | 1 << 2
HEADER = struct.Struct("=16xB3x")  # of netlink, then the address family and fields not needed here
PORTS = struct.Struct("!HH16s16s")  # our port, theirs; our address, theirs
REMEMBERED = 4096  # endpoints of streams

Endpoint = tuple[str, int]  # an address and a port


def endpoint_of(peer: str) -> Endpoint:
    """Parse gRPC's name for a peer: "ipv4:10.0.0.7:50312" or "ipv6:%5B::1%5D:50312"."""
    address, _, port = unquote(peer).partition(":")[2].rpartition(":")
    return address.strip("[]"), int(port) if port.isdigit() else 0


class FailedHandshakes:
    """Calls `report(address)` for every connection to a port that ends without `succeeded`. Silent outside Linux."""

    def __init__(self, port: int, report: Callable[[str], None]) -> None:
        self._port, self._report = port, report
        self._succeeded: dict[Endpoint, None] = {}  # in order of arrival
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._events: socket.socket | None = None
        with suppress(OSError, AttributeError):  # another system, or a kernel without sock_diag
            self._events = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, SOCK_DIAG)
            self._events.bind((0, GROUPS))
            self._events.settimeout(0.5)
            threading.Thread(target=self._read, args=(self._events,), daemon=True).start()

    def succeeded(self, endpoint: Endpoint) -> None:
        """The connection from this endpoint got as far as a stream."""
        with self._lock:
            self._succeeded[endpoint] = None
            if len(self._succeeded) > REMEMBERED:
                del self._succeeded[next(iter(self._succeeded))]

    def close(self) -> None:
        """Report nothing more."""
        self._closed.set()

    def _read(self, events: socket.socket) -> None:
        with events:
            while not self._closed.is_set():
                try:
                    data, sender = events.recvfrom(4096)
                except OSError:  # nothing came, or more than fits: strangers that are left out will come again
                    continue
                endpoint = remote_endpoint(data, self._port) if sender[0] == 0 else None
                if endpoint is not None and not self._forget(endpoint):
                    self._report(endpoint[0])

    def _forget(self, endpoint: Endpoint) -> bool:
        """Forget an endpoint; return whether it had succeeded."""
        with self._lock:
            return self._succeeded.pop(endpoint, self) is None


def remote_endpoint(data: bytes, port: int) -> Endpoint | None:
    """Who was at the other end of a connection that ended, if our end was this port."""
    if len(data) < HEADER.size + PORTS.size:
        return None
    (family,) = HEADER.unpack_from(data)
    ours, theirs, _, address = PORTS.unpack_from(data, HEADER.size)
    if ours != port or not theirs:
        return None
    remote = ip_address(address if family == socket.AF_INET6 else address[:4])
    mapped = remote.ipv4_mapped if isinstance(remote, IPv6Address) else None
    return str(mapped or remote), theirs
