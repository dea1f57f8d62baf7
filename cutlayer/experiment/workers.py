"""Workers: how many fit on this machine, and processes with one thread each."""

import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from multiprocessing import get_context
from typing import Any

from torch import Tensor

from cutlayer.blocks import cores
from cutlayer.data.task import Task

EACH = 1 << 30  # bytes of memory that a worker may need, beside the task


def room_for(task: Task) -> int:
    """How many workers fit: one for each core, as far as memory goes."""
    held = [f.values for f in task.features.values() if isinstance(f.values, Tensor)]
    size = sum(values.numel() * values.element_size() for values in held)
    try:
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):
        free = 1 << 62
    return max(1, min(cores.count(), int(free // (EACH + 3 * size))))


@contextmanager
def _threads() -> Iterator[None]:
    """Workers are many: one thread each, told to them by the environment that they inherit."""
    before = {name: os.environ.get(name) for name in ("OMP_NUM_THREADS", "POLARS_MAX_THREADS")}
    os.environ.update(dict.fromkeys(before, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


def _end_with_parent(parent: int) -> None:
    """A worker whose parent was killed would wait for work for ever: look once a second whether it is there."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


class Here(Executor):
    """Runs what is submitted at once, in this process."""

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run it."""
        future: Future[Any] = Future()
        future.set_result(fn(*args, **kwargs))
        return future


def pool_of(executor: Executor | None, workers: int) -> AbstractContextManager[Executor]:
    """The executor that was given, or processes of our own."""
    if executor is not None:
        return nullcontext(executor)
    if workers <= 1:
        return Here()
    with _threads():
        pool = ProcessPoolExecutor(workers, get_context("spawn"), _end_with_parent, (os.getpid(),))
        for _ in range(workers):
            pool.submit(os.getpid)  # start them while the environment says one thread
    return pool
