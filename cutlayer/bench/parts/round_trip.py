"""Round trips of 64 KiB to another process on this machine: seconds of the median turn, by four ways."""

import queue
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import torch

from cutlayer.bench.parts.federation import PARTIES, child
from cutlayer.message import Batch, Kind, Message, Phase
from cutlayer.net.peers.channel_settings import KEEPALIVE
from cutlayer.net.peers.dialer import Dialer
from cutlayer.net.peers.events import MessageReceived, PeerJoined
from cutlayer.net.peers.listener import Listener
from cutlayer.net.peers.mailbox import Mailbox
from cutlayer.net.trust.credentials import channel_credentials, channel_options, grpc, server_credentials
from cutlayer.net.trust.identity import Identity

SIZE = 64 * 1024
TURNS, WARM = 600, 100
NO_ROWS = torch.empty(0)  # which rows a message is about is not sent


def _turns(ping: Callable[[], object]) -> float:
    times = []
    for _ in range(WARM + TURNS):
        start = time.perf_counter()
        ping()
        times.append(time.perf_counter() - start)
    return median(times[WARM:])


def tcp(folder: Path) -> float:
    """A bare socket."""
    with child(__name__, "tcp_echo()") as port, socket.create_connection(("127.0.0.1", port)) as end:
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        data, room = bytes(SIZE), bytearray(SIZE)

        def ping() -> None:
            end.sendall(data)
            _fill(end, room)

        return _turns(ping)


def _fill(end: socket.socket, room: bytearray) -> bool:
    view, filled = memoryview(room), 0
    while filled < len(room):
        count = end.recv_into(view[filled:])
        if not count:
            return False
        filled += count
    return True


def tcp_echo() -> None:
    """Send back what comes."""
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    end, _ = listener.accept()
    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    room = bytearray(SIZE)
    while _fill(end, room):
        end.sendall(room)


@contextmanager
def _bare(folder: Path) -> Iterator[Any]:
    """A channel to a bare gRPC server in another process."""
    me = Identity.load(folder / "b")
    with child(__name__, f"grpc_echo(Path({str(folder)!r}))") as port:
        options = [*KEEPALIVE, *channel_options("a")]
        with grpc.secure_channel(f"127.0.0.1:{port}", channel_credentials(me), options=options) as channel:
            yield channel


def unary(folder: Path) -> float:
    """A bare call of gRPC."""
    with _bare(folder) as channel:
        call, data = channel.unary_unary("/bench/Say"), bytes(SIZE)
        return _turns(lambda: call(data))


def bare_stream(folder: Path) -> float:
    """A bare stream of gRPC."""
    with _bare(folder) as channel:
        outgoing: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        answers = channel.stream_stream("/bench/Echo")(iter(outgoing.get, None))
        data = bytes(SIZE)

        def ping() -> None:
            outgoing.put(data)
            next(answers)

        return _turns(ping)


def grpc_echo(folder: Path) -> None:
    """Bare gRPC that sends back what comes, by call or by stream."""
    server = grpc.server(ThreadPoolExecutor(2), options=KEEPALIVE)
    methods = {
        "Say": grpc.unary_unary_rpc_method_handler(lambda request, context: request),
        "Echo": grpc.stream_stream_rpc_method_handler(lambda requests, context: requests),
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("bench", methods),))
    print(server.add_secure_port("127.0.0.1:0", server_credentials(Identity.load(folder / "a"))), flush=True)
    server.start()
    server.wait_for_termination()


def _mailbox(folder: Path, name: str) -> Mailbox:
    peer = "b" if name == "a" else "a"
    mailbox = Mailbox(name, "a", b"bench", (peer,), PARTIES, Identity.load(folder / name))
    mailbox.allow({peer: (64,)}, rows=256)
    return mailbox


def _echo(mailbox: Mailbox, event: Any, step: int) -> None:
    batch = Batch(step, Phase.TRAIN, NO_ROWS)
    mailbox.send(Message(batch, mailbox.name, mailbox.peers[0], Kind.GRADIENT, event.message.payload))


def _accept(mailbox: Mailbox, event: Any) -> None:
    """Take note of a new peer, as a carrier does."""
    assert isinstance(event, PeerJoined)
    mailbox.links[event.peer].accept_new_process()


def ours(folder: Path) -> float:
    """The same round trip between two mailboxes: a tensor of 256 x 64 floats."""
    with child(__name__, f"mailbox_echo(Path({str(folder)!r}))") as port:
        mailbox = _mailbox(folder, "b")
        dialer = Dialer(mailbox, f"127.0.0.1:{port}", {}, lambda text: None)
        _accept(mailbox, mailbox.events.get(timeout=10))
        payload, steps = torch.zeros(256, 64), iter(range(TURNS + WARM + 1))

        def ping() -> None:
            batch = Batch(next(steps), Phase.TRAIN, NO_ROWS)
            mailbox.send(Message(batch, "b", "a", Kind.EMBEDDING, payload))
            assert isinstance(mailbox.events.get(timeout=10), MessageReceived)

        seconds = _turns(ping)
        dialer.close()
    return seconds


def mailbox_echo(folder: Path) -> None:
    """A listener that sends back what comes."""
    mailbox = _mailbox(folder, "a")
    print(Listener(mailbox, "127.0.0.1:0", {}, lambda text: None).port, flush=True)
    step = 0
    while True:
        event = mailbox.events.get()
        if isinstance(event, PeerJoined):
            _accept(mailbox, event)
        elif isinstance(event, MessageReceived):
            _echo(mailbox, event, step)
            step += 1
