"""Real processes of parties for tests, which can be watched, stopped and killed.

Imports cost seconds, so parties are forked from one process that has imported everything
(`python -m tests.helpers.processes`), in milliseconds.
"""

import errno
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from tests.helpers.waiting import LIMIT, wait_for

ROOT = Path(__file__).parents[2]


class Process:
    """One party's process, forked by the server."""

    def __init__(self, name, pid, log):
        self.name, self.pid, self.log = name, pid, log
        self.code = None

    @property
    def stderr(self):
        """All its output so far."""
        return self.log.read_text() if self.log.exists() else ""

    @property
    def ended(self):
        """Whether it has ended; `code` is then its exit code, or minus the signal that killed it."""
        path = self.log.with_suffix(".code")
        if self.code is None and path.exists() and (text := path.read_text()).endswith("\n"):
            self.code = int(text)
        return self.code is not None

    def send(self, number):
        """Send a signal."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def kill(self):
        """Kill it without a warning, and wait until it is dead."""
        self.send(signal.SIGKILL)
        self.end()

    def end(self, limit=LIMIT):
        """Wait for its end; the exit code."""
        wait_for(lambda: self.ended, limit, lambda: f"the end of {self.name}, which says: {self.stderr[-2000:]}")
        return self.code

    def wait_says(self, text, limit=LIMIT, since=0):
        """Wait until this text appears in its output (after so many characters); return the seconds that took."""
        began = time.monotonic()
        wait_for(
            lambda: text in self.stderr[since:],
            limit,
            lambda: f"{self.name} to say {text!r}; it says: {self.stderr[-2000:]}",
        )
        return time.monotonic() - began


class ForkServer:
    """One process that has imported cutlayer and forks a party on request."""

    def __init__(self):
        command = [sys.executable, "-m", "tests.helpers.processes"]
        env = {**os.environ, "OMP_NUM_THREADS": "1"}
        self._process = subprocess.Popen(
            command, cwd=ROOT, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )

    def start(self, name, arguments, log, **settings):
        """Fork a party with these arguments of the command line."""
        job = {"arguments": [str(argument) for argument in arguments], "log": str(log), **settings}
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        return Process(name, int(self._process.stdout.readline()), log)

    def close(self):
        """End it."""
        self._process.stdin.close()
        self._process.wait(LIMIT)
        self._process.stdout.close()


def _run(job):
    """A forked party: redirect its output to a file, then run the command line."""
    out = os.open(job["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.dup2(out, 2)
    os.dup2(out, 1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    _arrange(job)
    from cutlayer.cli import main

    return main(job["arguments"])


def _arrange(job):
    """Settings of one process: `quick` to notice silence, `hold` at a file, `full_after` so many."""
    from cutlayer.net.party.run_folder import RunFolder
    from cutlayer.net.peers import channel_settings, dialer

    if job.get("quick"):
        options = channel_settings.KEEPALIVE
        options[:] = [(name, 1_000 if value == 5_000 else value) for name, value in options]
        dialer.CONNECT_SECONDS = 2.0
    write_json, write, paths = RunFolder.write_json, RunFolder.write, []

    def held(self, name, facts):
        write_json(self, name, facts)
        while name == job.get("hold"):
            time.sleep(LIMIT)

    def full(self, path, data):
        paths.append(path)
        if len(paths) > job.get("full_after", 1 << 60):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        write(self, path, data)

    RunFolder.write_json, RunFolder.write = held, full


def _import_all():
    """Whatever a party imports; nothing here may start a thread, which would not survive a fork."""
    import torch

    from cutlayer.data.named import read_dataset

    torch.set_num_threads(1)
    read_dataset("digits:parties=2")
    weights = torch.zeros(1, requires_grad=True)
    weights.grad = torch.zeros(1)
    torch.optim.Adam([weights]).step()  # imports a third of PyTorch
    for module in (
        "sklearn.metrics",
        "gmpy2",
        "seal",
        "cutlayer.cli",
        "cutlayer.cli.show",
        "cutlayer.net.party.training",
    ):
        with suppress(ImportError):
            __import__(module)


def _serve():
    """Fork a party for every line that comes in, with a watcher that writes down how it ends."""
    _import_all()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in sys.stdin:
        job = json.loads(line)
        reading, writing = os.pipe()
        if not os.fork():
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            child = os.fork()
            if not child:
                code = 70
                try:
                    code = _run(job)
                finally:
                    sys.stdout.flush()
                    sys.stderr.flush()
                    os._exit(code)
            os.write(writing, f"{child}\n".encode())
            os.closerange(0, 1024)
            _, status = os.waitpid(child, 0)
            Path(job["log"]).with_suffix(".code").write_text(f"{os.waitstatus_to_exitcode(status)}\n")
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading) as pipe:
            print(pipe.readline().strip(), flush=True)


if __name__ == "__main__":
    _serve()
