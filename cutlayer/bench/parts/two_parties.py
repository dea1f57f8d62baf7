"""Training of two parties in one process, and in two over mutual TLS: seconds a step."""

import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

from cutlayer.bench.parts.federation import PARTIES, child
from cutlayer.data.task import Features, Goal
from cutlayer.net.party.connection import Connection, Purpose
from cutlayer.net.party.manifest import RunManifest
from cutlayer.net.party.own_data import AlignedData
from cutlayer.net.party.party_file import DataSection, PartyFile, PartySection
from cutlayer.net.party.rehearse import rehearse
from cutlayer.net.party.training import Training
from cutlayer.rng import generator


@dataclass(frozen=True)
class Example:
    """What both parties train: the shape and number of a party's rows, its bottom, epochs."""

    shape: tuple[int, ...]
    rows: int
    bottom: str
    epochs: int


TASKS = {
    "mlp": Example((392,), 15_360, "mlp:hidden=32", 3),
    "lenet": Example((1, 28, 14), 2_560, "lenet", 2),
}


class _Rows:
    """Random rows: speed does not depend on what they say."""

    ids = None

    def __init__(self, name: str, party: str) -> None:
        task = TASKS[name]
        rows = task.rows
        values = torch.rand(rows + 256, *task.shape, generator=generator(0, "bench wire", party))
        labels = torch.randint(0, 10, (rows + 256,), generator=generator(0, "bench wire"))
        train, test = torch.arange(rows), torch.arange(rows, rows + 256)
        classes = tuple("0123456789")
        self.data = AlignedData(
            Features(values), labels if party == "a" else None, Goal.MULTICLASS, classes, train, test
        )

    def select(self, rows: torch.Tensor, notes: list[str]) -> AlignedData:
        """The rows are in order."""
        return self.data


def _party_file(name: str, party: str, folder: Path, port: int, lookahead: int = 0) -> PartyFile:
    task = TASKS[name]
    run = RunManifest(
        parties=PARTIES,
        label_party="a",
        bottom=task.bottom,
        top="none",
        cut="sum",
        width=10,
        epochs=task.epochs,
        batch_size=256,
        lookahead=lookahead,
        dataset="bench",
    )
    address = f"127.0.0.1:{port}"
    listen, connect = (address, "") if party == "a" else ("", address)
    own = PartySection(
        name=party,
        keys=str(folder / party),
        folder=str(folder / f"run-{party}"),
        seed=0,
        listen=listen,
        connect=connect,
    )
    return PartyFile(folder / f"{party}.toml", own, DataSection(), run)


def one_process(name: str) -> float:
    """Seconds a step with both parties in this process."""
    times: list[float] = []
    files = [_party_file(name, party, Path(), 1) for party in PARTIES]
    sources = {party: _Rows(name, party) for party in PARTIES}
    rehearse(files, sources, lambda: times.append(time.perf_counter()))
    return (times[-1] - times[0]) / (len(times) - 1)


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
        with (
            between(port) as dialled,
            child(__name__, f"train_one({name!r}, 'b', Path({runs!r}), {dialled}, {lookahead})"),
        ):
            return train_one(name, "a", Path(runs), port, lookahead)


def train_one(name: str, party: str, folder: Path, port: int, lookahead: int = 0) -> float:
    """Train as one party; seconds a step between the first step and the last."""
    if party == "b":
        print(0, flush=True)
    times: list[float] = []

    def progress(step: int, total: int, text: str) -> None:
        times.append(time.perf_counter())

    file = _party_file(name, party, folder, port, lookahead)
    with Connection(file, Purpose.TRAIN, log=lambda text: None) as connection:
        Training(connection, source=_Rows(name, party), progress=progress).run()
    return (times[-1] - times[0]) / (len(times) - 1)
