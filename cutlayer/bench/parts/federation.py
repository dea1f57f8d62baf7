"""Two parties on this machine: their keys, and a process for one of them."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cutlayer.net.trust import authority, identity

PARTIES = ("a", "b")


def make_keys(folder: Path) -> None:
    """Keys of a federation of two, a folder for each party."""
    issuer = authority.Authority.create(folder / "authority", "bench")
    for name in PARTIES:
        request, _ = identity.request(folder / name, name)
        issuer.sign(request)
        identity.install(folder / name, issuer.folder / f"{name}.pem", issuer.folder / "ca.pem")


@contextmanager
def child(module: str, call: str) -> Iterator[int]:
    """A process that calls a function of a module and prints the port it listens at."""
    code = f"from pathlib import Path; import {module}; {module}.{call}"
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=environment)
    try:
        assert process.stdout is not None
        yield int(process.stdout.readline())
    finally:
        process.kill()
        process.wait()
