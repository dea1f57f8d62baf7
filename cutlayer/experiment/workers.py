"""Workers: how many fit on this machine, processes with one thread each, or a Dask cluster."""

import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from typing import Any

from torch import Tensor

from cutlayer.blocks import cores
from cutlayer.data.task import Task
from cutlayer.errors import ConfigError

WORKER_BYTES = 1 << 30  # memory that a worker may need, beside the task
PATIENCE = 10  # seconds for a scheduler to answer


def room_for(task: Task) -> int:
    """How many workers fit: one for each core, as far as memory goes."""
    held = [f.values for f in task.features.values() if isinstance(f.values, Tensor)]
    size = sum(values.numel() * values.element_size() for values in held)
    try:
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):
        free = 1 << 62
    return max(1, min(cores.count(), int(free // (WORKER_BYTES + 3 * size))))


def processes(workers: int) -> Executor:
    """Processes of our own, which end with this one."""
    with _one_thread():
        pool = ProcessPoolExecutor(workers, get_context("spawn"), _end_with_parent, (os.getpid(),))
        for _ in range(workers):
            pool.submit(os.getpid)  # start them while the environment says one thread
    return pool


def dask_cluster(address: str) -> Executor:
    """A Dask cluster as an executor, by its scheduler's address."""
    try:
        from distributed import Client
    except ImportError as error:
        raise ConfigError('A Dask cluster needs an extra: pip install "cutlayer[dask]".') from error
    connect: Any = Client
    try:
        executor: Executor = connect(address, timeout=PATIENCE).get_executor()
    except OSError as error:
        raise ConfigError(f"Expected a Dask scheduler at {address}, found none: {error}.") from error
    return executor


@contextmanager
def _one_thread() -> Iterator[None]:
    """Processes that start meanwhile use one thread each: they inherit it with the environment."""
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
