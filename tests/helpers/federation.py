"""A federation of real processes for tests: party files in a folder, and the processes that run them."""

import json
from contextlib import suppress

from cutlayer.net.party.party_file import read_file
from cutlayer.net.party.rehearse import rehearse
from cutlayer.net.trust.authority import Authority
from tests.helpers.certificates import join
from tests.helpers.waiting import LIMIT, free_port, wait_for


def toml(value):
    """A value as TOML spells it."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {toml(entry)}" for key, entry in value.items()) + "}"
    return json.dumps(list(value) if isinstance(value, tuple) else value)


class Federation:
    """Party files in a folder, and the processes that run them."""

    def __init__(self, folder, fork_server, *, parties=2, insecure=True, **run):
        self.folder, self.fork_server, self.insecure = folder, fork_server, insecure
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
        started = []
        for name in names or self.names:
            path, log = self.write(name, run), self.folder / f"{name}-{self._started}.log"
            self._started += 1
            options = ["--insecure"] if self.insecure else []
            self.processes[name] = self.fork_server.start(name, [verb, path, *options], log, **settings)
            started.append(self.processes[name])
        return started[0] if len(started) == 1 else started

    def simulate(self):
        """The record of a simulation, in this process."""
        return rehearse([read_file(self.write(name)) for name in self.names])

    def finish(self, limit=LIMIT):
        """Wait until all have ended well; the models of all of them."""
        processes = self.processes.values()

        def say():
            return "".join(
                f"\n== {process.name} ended with {process.code}:\n{process.stderr[-2000:]}" for process in processes
            )

        wait_for(
            lambda: all(process.ended for process in processes) or any(process.code for process in processes),
            limit,
            say,
        )
        assert all(process.code == 0 for process in processes), say()
        return {name: digest for party in self.names for name, digest in self.record(party)["models"].items()}

    def kept(self, name):
        """The folder of a party's run."""
        return self.folder / f"{name}-run"

    def record(self, name):
        """What a party wrote when it was done."""
        return json.loads((self.kept(name) / "run.json").read_text())

    def step(self, name):
        """The last step in which a party released something, by its ledger; -1 before the first."""
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
        """The steps for which a party has a checkpoint."""
        paths = (self.kept(name) / "checkpoints").glob("step-*.safetensors")
        return sorted(int(path.stem.removeprefix("step-")) for path in paths)

    def close(self):
        """Leave nothing behind."""
        for process in self.processes.values():
            if not process.ended:
                process.kill()
