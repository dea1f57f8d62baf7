"""All cores, for work that holds Python's lock: a module's `serve` answers jobs in other processes.

A process starts in a quarter of a second, where importing the package takes three: this file is run by its
path, and the packages above the module are empty there, so that their `__init__` (and with it torch) never runs.
Jobs and answers are bytes on pipes. Nothing is pickled or forked, and a process ends when its pipe does.
"""

import os
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager, suppress
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import IO, Any, TypeVar

T = TypeVar("T")
Process = subprocess.Popen[bytes]

HEAD = struct.Struct("<Q")
PIPE_BYTES = 1 << 20  # a few answers fit, so that a process goes on while the last one is read
SETTINGS = {  # one thread each; and freed memory is kept, as fresh pages would cost a fifth of the time
    **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"),
    **dict.fromkeys(("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_"), str(1 << 28)),
}

_most = [1 << 16]


def count() -> int:
    """How many cores this process may use."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(allowed, _most[-1])


@contextmanager
def at_most(number: int) -> Iterator[None]:
    """Use no more cores than this for a while."""
    _most.append(number)
    try:
        yield
    finally:
        _most.pop()


def spread(
    module: str,
    setup: bytes | None,
    jobs: int,
    job: Callable[[int], bytes],
    then: Callable[[int, bytes], T],
    *,
    processes: int,
    doing: str,
    instead: str,
) -> list[T]:
    """`then` of the answer to every job, in order; processes take turns, and get `setup` before their first job.

    `job` and `then` are called from threads. A process that fails ends all; its words are dropped, since they
    could quote a job: one sentence says what it was `doing` and what to do `instead`.
    """
    command = [sys.executable, "-P", __file__, module]
    turns = [range(first, jobs, processes) for first in range(min(processes, jobs))]

    def feed(process: Process, turn: range) -> None:
        assert process.stdin is not None
        with suppress(BrokenPipeError), process.stdin as pipe:  # who reads the answers reports a broken one
            if setup is not None:
                _write(pipe, setup)
            for number in turn:
                _write(pipe, job(number))

    def collect(process: Process, turn: range) -> list[T]:
        assert process.stdout is not None
        answers = [then(number, answer) for number, answer in zip(turn, _frames(process.stdout), strict=False)]
        code = process.wait()
        if code or len(answers) != len(turn):
            raise RunError(f"A process that {doing} ended with code {code}; {instead}.")
        return answers

    from cutlayer.errors import RunError  # not above: a process that runs this file has no such package yet

    with ExitStack() as stack, ThreadPoolExecutor(2 * len(turns) or 1) as threads:
        started: list[Process] = []
        try:
            for _ in turns:
                process = subprocess.Popen(
                    command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    pipesize=PIPE_BYTES,
                    env=os.environ | SETTINGS,
                )
                started.append(stack.enter_context(process))
            fed = [threads.submit(feed, *pair) for pair in zip(started, turns, strict=True)]
            collected = [threads.submit(collect, *pair) for pair in zip(started, turns, strict=True)]
            futures: list[Future[Any]] = [*fed, *collected]
            for future in wait(futures, return_when=FIRST_EXCEPTION).done:
                future.result()
            answers = [future.result() for future in collected]
        except OSError as error:
            raise RunError(f"A process that {doing} did not start ({error.strerror}); {instead}.") from error
        finally:
            for process in started:
                process.kill()
    return [answers[number % len(turns)][number // len(turns)] for number in range(jobs)]


def _write(pipe: IO[bytes], frame: bytes) -> None:
    pipe.write(HEAD.pack(len(frame)))
    pipe.write(frame)
    pipe.flush()


def _frames(pipe: IO[bytes]) -> Iterator[bytes]:
    """What `_write` wrote, up to the end or to where it breaks off."""
    while len(head := pipe.read(HEAD.size)) == HEAD.size:
        (size,) = HEAD.unpack(head)
        if len(frame := pipe.read(size)) < size:
            return
        yield frame


def _serve(module: str) -> None:
    """Answer the jobs on standard input, with nothing loaded but the module and what it imports itself."""
    package = Path(__file__).parents[1]
    names = module.split(".")[1:-1]
    for depth in range(len(names) + 1):
        empty = ModuleType(".".join([package.name, *names[:depth]]))
        empty.__path__ = [str(package.joinpath(*names[:depth]))]
        sys.modules[empty.__name__] = empty
    for answer in import_module(module).serve(_frames(sys.stdin.buffer)):
        _write(sys.stdout.buffer, answer)


if __name__ == "__main__":
    _serve(sys.argv[1])
