"""A federation of real processes for tests: party files, processes that are killed, and a cable that is cut.

Waiting is always for a condition, with a limit; nothing here sleeps and hopes. Imports cost seconds, so parties
are forked from one process that has imported everything (`python -m tests.helpers.processes`), in milliseconds.
"""

import errno
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).parents[2]
LIMIT = 60.0  # seconds for anything
POLL = 0.01


def free_port():
    """A port that nobody listens at now."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def wait_for(condition, limit=LIMIT, what="it"):
    """Wait until a condition holds and return what it gave."""
    end = time.monotonic() + limit
    while not (found := condition()):
        if time.monotonic() > end:
            raise AssertionError(f"Waited {limit:.0f} seconds for {what() if callable(what) else what}.")
        time.sleep(POLL)
    return found


def toml(value):
    """A value as TOML spells it."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {toml(one)}" for key, one in value.items()) + "}"
    return json.dumps(list(value) if isinstance(value, tuple) else value)


class Process:
    """One party's process, forked from the nursery."""

    def __init__(self, name, pid, log):
        self.name, self.pid, self.log = name, pid, log
        self.code = None

    @property
    def stderr(self):
        """All that it has said."""
        return self.log.read_text() if self.log.exists() else ""

    @property
    def ended(self):
        """Whether it has ended; `code` is then its exit code, or minus the signal that killed it."""
        path = self.log.with_suffix(".code")
        if self.code is None and path.exists() and (text := path.read_text()).endswith("\n"):
            self.code = int(text)
        return self.code is not None

    def send(self, what):
        """Send a signal."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, what)

    def kill(self):
        """Kill it without a warning, and wait until it is dead."""
        self.send(signal.SIGKILL)
        self.end()

    def end(self, limit=LIMIT):
        """Wait for its end; the exit code."""
        wait_for(lambda: self.ended, limit, lambda: f"the end of {self.name}, which says: {self.stderr[-2000:]}")
        return self.code

    def wait_says(self, text, limit=LIMIT, since=0):
        """Wait until it has said this (after so many characters); how many seconds that took."""
        began = time.monotonic()
        wait_for(
            lambda: text in self.stderr[since:],
            limit,
            lambda: f"{self.name} to say {text!r}; it says: {self.stderr[-2000:]}",
        )
        return time.monotonic() - began


class Nursery:
    """One process that has imported cutlayer and forks a party whenever it is told to."""

    def __init__(self):
        command = [sys.executable, "-m", "tests.helpers.processes"]
        env = {**os.environ, "OMP_NUM_THREADS": "1"}
        self._process = subprocess.Popen(
            command, cwd=ROOT, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )

    def start(self, name, arguments, log, **settings):
        """Fork a party with these arguments of the command line."""
        job = {"arguments": [str(one) for one in arguments], "log": str(log), **settings}
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        return Process(name, int(self._process.stdout.readline()), log)

    def close(self):
        """End it."""
        self._process.stdin.close()
        self._process.wait(LIMIT)
        self._process.stdout.close()


class Federation:
    """Party files in a folder, and the processes that run them."""

    def __init__(self, folder, nursery, *, parties=2, insecure=True, **run):
        self.folder, self.nursery, self.insecure = folder, nursery, insecure
        self.names = tuple(f"party{number}" for number in range(1, parties + 1))
        self.port = free_port()
        self.run = {
            "parties": self.names,
            "label_party": self.names[0],
            "dataset": f"digits:parties={parties}",
            "batch_size": 128,
            "epochs": 3,
            "checkpoint": 5,
            **run,
        }
        self.party = {name: {"seed": number, "wait": 60} for number, name in enumerate(self.names)}
        self.data = {name: {} for name in self.names}
        self.processes = {}
        self._started = 0
        folder.mkdir(parents=True, exist_ok=True)
        if not insecure:
            self._make_keys()

    def _make_keys(self):
        from cutlayer.net.trust.authority import Authority
        from tests.net import join

        authority = Authority.create(self.folder / "authority", "ours")
        for name in self.names:
            join(authority, self.folder / f"{name}-keys", name)

    def write(self, name, run=None):
        """Write a party's file; `run` changes its [run] section."""
        end = {"listen": f"127.0.0.1:{self.port}"} if name == self.names[0] else {"connect": f"127.0.0.1:{self.port}"}
        keys = {} if self.insecure else {"keys": f"{name}-keys"}
        sections = {
            "party": {"name": name, **end, **keys, **self.party[name]},
            "data": self.data[name],
            "run": {key: value for key, value in (self.run | (run or {})).items() if value is not None},
        }
        lines = []
        for section, values in sections.items():
            if values:
                lines += [f"[{section}]", *(f"{key} = {toml(value)}" for key, value in values.items())]
        path = self.folder / f"{name}.toml"
        new = path.with_suffix(".new")
        new.write_text("\n".join(lines) + "\n")
        new.rename(path)  # or a party that has just started could read half of it
        return path

    def start(self, *names, run=None, verb="party", **settings):
        """Start parties, all if none is named; the processes."""
        made = []
        for name in names or self.names:
            path, log = self.write(name, run), self.folder / f"{name}-{self._started}.log"
            self._started += 1
            options = ["--insecure"] if self.insecure else []
            self.processes[name] = self.nursery.start(name, [verb, path, *options], log, **settings)
            made.append(self.processes[name])
        return made[0] if len(made) == 1 else made

    def simulate(self):
        """The record of a simulation, in this process."""
        from cutlayer.net.party.party_file import read_file
        from cutlayer.net.party.rehearse import rehearse

        return rehearse([read_file(self.write(name)) for name in self.names])

    def finish(self, limit=LIMIT):
        """Wait until all have ended well; the models of all of them."""
        all_of_them = self.processes.values()

        def say():
            return "".join(f"\n== {one.name} ended with {one.code}:\n{one.stderr[-2000:]}" for one in all_of_them)

        wait_for(lambda: all(one.ended for one in all_of_them) or any(one.code for one in all_of_them), limit, say)
        assert all(one.code == 0 for one in all_of_them), say()
        return {name: digest for party in self.names for name, digest in self.record(party)["models"].items()}

    def kept(self, name):
        """The folder of a party's run."""
        return self.folder / f"{name}-run"

    def record(self, name):
        """What a party wrote when it was done."""
        return json.loads((self.kept(name) / "run.json").read_text())

    def said(self, name):
        """All that a party has said, in all of its processes."""
        return "".join(path.read_text() for path in sorted(self.folder.glob(f"{name}-*.log")))

    def step(self, name):
        """The last step of which a party released something, by its ledger; -1 before the first."""
        path = self.kept(name) / "ledger.jsonl"
        if not path.exists():
            return -1
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - 4096))
            lines = file.read().split(b"\n")[:-1]
        for line in reversed(lines):
            with suppress(ValueError, KeyError):
                facts = json.loads(line)
                return facts["step"] if facts["phase"] == "train" else -1
        return -1

    def wait_step(self, name, step, limit=LIMIT):
        """Wait until a party has come to a step."""
        wait_for(
            lambda: self.step(name) >= step or self.processes[name].ended,
            limit,
            lambda: f"step {step} of {name}, which says: {self.processes[name].stderr[-2000:]}",
        )
        assert not self.processes[name].ended, self.processes[name].stderr[-3000:]

    def steps_kept(self, name):
        """Steps of which a party has a checkpoint."""
        found = (self.kept(name) / "checkpoints").glob("step-*.safetensors")
        return sorted(int(path.stem.removeprefix("step-")) for path in found)

    def close(self):
        """Leave nothing behind."""
        for process in self.processes.values():
            if not process.ended:
                process.kill()


class Cable:
    """A TCP proxy between feature parties and the label party, which can be cut, slowed down or held."""

    def __init__(self, port):
        self._to = port
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        self._pairs = []
        self._flows = threading.Event()
        self._flows.set()
        self.delay = 0.0
        self._open = True
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self):
        """End every connection now, and say how many; new ones are let through."""
        pairs, self._pairs = self._pairs, []
        for one in (end for pair in pairs for end in pair):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        return len(pairs)

    def hold(self):
        """Let nothing through, and say nothing about it."""
        self._flows.clear()

    def release(self):
        """Let everything through again."""
        self._flows.set()

    def close(self):
        """End it."""
        self._open = False
        with suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self.release()
        self.cut()

    def _accept(self):
        while self._open:
            try:
                near, _ = self._server.accept()
            except OSError:
                return
            try:
                far = socket.create_connection(("127.0.0.1", self._to))
            except OSError:
                near.close()
                continue
            self._pairs.append((near, far))
            for pair in ((near, far), (far, near)):
                threading.Thread(target=self._carry, args=pair, daemon=True).start()

    def _carry(self, source, sink):
        with suppress(OSError):
            while data := source.recv(1 << 16):
                if self.delay:
                    time.sleep(self.delay)
                self._flows.wait()
                sink.sendall(data)
        with suppress(OSError):
            sink.shutdown(socket.SHUT_RDWR)
        source.close()


def _run(job):
    """A forked party: its words to a file, then the command line."""
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
    from cutlayer.net.party import store
    from cutlayer.net.peers import dial, hub

    if job.get("quick"):
        hub.ALIVE[:] = [(name, 1_000 if value == 5_000 else value) for name, value in hub.ALIVE]
        dial.CONNECT = 2.0
    keep, write, written = store.Store.keep_json, store.Store.write, []

    def held(self, name, facts):
        keep(self, name, facts)
        while name == job.get("hold"):
            time.sleep(LIMIT)

    def full(self, path, data):
        written.append(path)
        if len(written) > job.get("full_after", 1 << 60):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        write(self, path, data)

    store.Store.keep_json, store.Store.write = held, full


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
        "cutlayer.net.party.member",
    ):
        with suppress(ImportError):
            __import__(module)


def _nurse():
    """Fork a party for every line that comes in, with a watcher that writes down how it ends."""
    _import_all()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in sys.stdin:
        job = json.loads(line)
        told, telling = os.pipe()
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
            os.write(telling, f"{child}\n".encode())
            os.closerange(0, 1024)
            _, status = os.waitpid(child, 0)
            Path(job["log"]).with_suffix(".code").write_text(f"{os.waitstatus_to_exitcode(status)}\n")
            os._exit(0)
        os.close(telling)
        with os.fdopen(told) as pipe:
            print(pipe.readline().strip(), flush=True)


if __name__ == "__main__":
    _nurse()
