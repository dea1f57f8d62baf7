"""Messages and training over mutual TLS on loopback, against raw TCP, plain gRPC and the same training in one process.

Round trips of 64 KiB: `tcp` is a bare socket, `unary` and `grpc` a bare call and a bare stream of gRPC under the same
TLS, `ours` the numbered, checked and confirmed frames that parties exchange. `ratio` is ours over the bare stream.
Training: two parties of 392-32-10 (and of LeNet on half a picture), batch 256, in two processes over mutual TLS against
one process; both count the same steps, ledger and checkpoints included.
"""

import os
import queue
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import torch

from cutlayer.data.task import Features, Goal
from cutlayer.message import Batch, Kind, Message, Phase
from cutlayer.net.party.connection import Connection, Purpose
from cutlayer.net.party.manifest import Manifest
from cutlayer.net.party.own_data import AlignedData
from cutlayer.net.party.party_file import DataSection, PartyFile, PartySection
from cutlayer.net.party.rehearse import rehearse
from cutlayer.net.party.training import Training
from cutlayer.net.peers.channel_settings import KEEPALIVE
from cutlayer.net.peers.dialer import Dialer
from cutlayer.net.peers.events import MessageReceived, PeerJoined
from cutlayer.net.peers.listener import Listener
from cutlayer.net.peers.mailbox import Mailbox
from cutlayer.net.trust import authority, identity
from cutlayer.net.trust.credentials import channel_credentials, channel_options, grpc, server_credentials
from cutlayer.net.trust.identity import Identity
from cutlayer.rng import generator

SIZE = 64 * 1024
TURNS, WARM = 600, 100
PARTIES = ("a", "b")
NO_ROWS = torch.empty(0)  # which rows a message is about is not sent
TASKS = {
    "mlp": {"shape": (392,), "rows": 15_360, "bottom": "mlp:hidden=32", "epochs": 3},
    "lenet": {"shape": (1, 28, 14), "rows": 2_560, "bottom": "lenet", "epochs": 2},
}


def measure(repeats: int, progress: Callable[[int, int], None] = lambda done, total: None) -> dict[str, Any]:
    """Interleave all sides `repeats` times and compare the fastest turns: other work only ever adds time."""
    found: dict[str, list[float]] = {}
    sides: dict[str, Callable[[Path], float]] = {"tcp": _tcp, "unary": _unary, "grpc": _grpc, "ours": _ours}
    for name in TASKS:
        sides[f"{name}, one process"] = lambda folder, name=name: _one(name)  # type: ignore[misc]
        sides[f"{name}, two processes"] = lambda folder, name=name: _two(name, folder)  # type: ignore[misc]
    with tempfile.TemporaryDirectory() as folder:
        make_keys(Path(folder))
        for turn in range(repeats):
            for number, (name, side) in enumerate(sides.items()):
                found.setdefault(name, []).append(side(Path(folder)))
                progress(turn * len(sides) + number + 1, repeats * len(sides))
    best = {name: min(values) for name, values in found.items()}
    return {
        "ratio": best["ours"] / best["grpc"],
        "ratio_to_unary": best["ours"] / best["unary"],
        "ratio_to_raw_tcp": best["ours"] / best["tcp"],
        "grpc_to_raw_tcp": best["grpc"] / best["tcp"],
        **{f"{name}_milliseconds": 1000 * best[name] for name in ("tcp", "unary", "grpc", "ours")},
        **{
            f"{name}_throughput_over_one_process": best[f"{name}, one process"] / best[f"{name}, two processes"]
            for name in TASKS
        },
        **{f"{name}_milliseconds_a_step": 1000 * best[f"{name}, two processes"] for name in TASKS},
    }


def make_keys(folder: Path) -> None:
    """A federation of two."""
    made = authority.Authority.create(folder / "authority", "bench")
    for name in PARTIES:
        request, _ = identity.request(folder / name, name)
        made.sign(request)
        identity.install(folder / name, made.folder / f"{name}.pem", made.folder / "ca.pem")


@contextmanager
def _child(call: str) -> Iterator[int]:
    """A process that runs a function of this module and prints the port it listens at."""
    code = f"from pathlib import Path; from cutlayer.bench import wire; wire.{call}"
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=environment)
    try:
        assert child.stdout is not None
        yield int(child.stdout.readline())
    finally:
        child.kill()
        child.wait()


def _turns(ping: Callable[[], object]) -> float:
    times = []
    for _ in range(WARM + TURNS):
        start = time.perf_counter()
        ping()
        times.append(time.perf_counter() - start)
    return median(times[WARM:])


def _tcp(folder: Path) -> float:
    with _child("tcp_echo()") as port, socket.create_connection(("127.0.0.1", port)) as end:
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        data, room = bytes(SIZE), bytearray(SIZE)

        def ping() -> None:
            end.sendall(data)
            _fill(end, room)

        return _turns(ping)


def _fill(end: socket.socket, room: bytearray) -> bool:
    view, got = memoryview(room), 0
    while got < len(room):
        more = end.recv_into(view[got:])
        if not more:
            return False
        got += more
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
    with _child(f"grpc_echo(Path({str(folder)!r}))") as port:
        options = [*KEEPALIVE, *channel_options("a")]
        with grpc.secure_channel(f"127.0.0.1:{port}", channel_credentials(me), options=options) as channel:
            yield channel


def _unary(folder: Path) -> float:
    with _bare(folder) as channel:
        call, data = channel.unary_unary("/bench/Say"), bytes(SIZE)
        return _turns(lambda: call(data))


def _grpc(folder: Path) -> float:
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
    from concurrent.futures import ThreadPoolExecutor

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
    other = "b" if name == "a" else "a"
    mailbox = Mailbox(name, "a", b"bench", (other,), PARTIES, Identity.load(folder / name))
    mailbox.allow({other: (64,)}, rows=256)
    return mailbox


def _echo(mailbox: Mailbox, event: Any, step: int) -> None:
    batch = Batch(step, Phase.TRAIN, NO_ROWS)
    mailbox.send(Message(batch, mailbox.name, mailbox.peers[0], Kind.GRADIENT, event.message.payload))


def _accept(mailbox: Mailbox, event: Any) -> None:
    """Take note of a new peer, as a carrier does."""
    assert isinstance(event, PeerJoined)
    mailbox.links[event.peer].accept_new_process()


def _ours(folder: Path) -> float:
    """The same round trip between two mailboxes: a tensor of 256 x 64 floats."""
    with _child(f"mailbox_echo(Path({str(folder)!r}))") as port:
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


class _Source:
    """Random rows: speed does not depend on what they say."""

    ids = None

    def __init__(self, name: str, party: str) -> None:
        task = TASKS[name]
        rows: Any = task["rows"]
        values = torch.rand(rows + 256, *task["shape"], generator=generator(0, "bench wire", party))  # type: ignore[misc]
        labels = torch.randint(0, 10, (rows + 256,), generator=generator(0, "bench wire"))
        train, test = torch.arange(rows), torch.arange(rows, rows + 256)
        classes = tuple("0123456789")
        self.data = AlignedData(
            Features(values), labels if party == "a" else None, Goal.MULTICLASS, classes, train, test
        )

    def select(self, rows: torch.Tensor, notes: list[str]) -> AlignedData:
        """The rows are in order."""
        return self.data


def _file(name: str, party: str, folder: Path, port: int, lookahead: int = 0) -> PartyFile:
    task = TASKS[name]
    run = Manifest(
        parties=PARTIES,
        label_party="a",
        bottom=str(task["bottom"]),
        top="none",
        cut="sum",
        width=10,
        epochs=int(task["epochs"]),  # type: ignore[call-overload]
        batch_size=256,
        lookahead=lookahead,
        dataset="bench",
    )
    here = f"127.0.0.1:{port}"
    listen, connect = (here, "") if party == "a" else ("", here)
    own = PartySection(
        name=party,
        keys=str(folder / party),
        folder=str(folder / f"run-{party}"),
        seed=0,
        listen=listen,
        connect=connect,
    )
    return PartyFile(folder / f"{party}.toml", own, DataSection(), run)


def _one(name: str) -> float:
    """Seconds a step with both parties in this process."""
    times: list[float] = []
    files = [_file(name, party, Path(), 1) for party in PARTIES]
    sources = {party: _Source(name, party) for party in PARTIES}
    rehearse(files, sources, lambda: times.append(time.perf_counter()))
    return (times[-1] - times[0]) / (len(times) - 1)


def _two(name: str, folder: Path) -> float:
    return two_processes(name, folder)


@contextmanager
def _as_it_is(port: int) -> Iterator[int]:
    yield port


def two_processes(
    name: str,
    folder: Path,
    lookahead: int = 0,
    between: Callable[[int], AbstractContextManager[int]] = _as_it_is,
) -> float:
    """Seconds a step with a process for each party, from the first step to the last.

    `between` may put something between the two: given the port that one listens at, the port that the other dials.
    """
    with tempfile.TemporaryDirectory(dir=folder) as runs:
        for party in PARTIES:
            (Path(runs) / party).symlink_to(folder / party)
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        with between(port) as dialled, _child(f"train_one({name!r}, 'b', Path({runs!r}), {dialled}, {lookahead})"):
            return train_one(name, "a", Path(runs), port, lookahead)


def train_one(name: str, party: str, folder: Path, port: int, lookahead: int = 0) -> float:
    """Train as one party; seconds a step between the first step and the last."""
    if party == "b":
        print(0, flush=True)
    times: list[float] = []

    def progress(step: int, total: int, text: str) -> None:
        times.append(time.perf_counter())

    file = _file(name, party, folder, port, lookahead)
    with Connection(file, Purpose.TRAIN, log=lambda text: None) as connection:
        Training(connection, source=_Source(name, party), progress=progress).run()
    return (times[-1] - times[0]) / (len(times) - 1)
