"""Flower's own processes on this machine: a link, two nodes, and all that they start."""

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from safetensors import safe_open

from tests.helpers.waiting import free_port, wait_for

BIN = Path(sys.executable).parent


LIMIT = 120.0  # seconds for anything


class Flower:
    """A SuperLink and two SuperNodes, and all that they start."""

    def __init__(self, folder):
        self.folder, self.started, self.port = folder, [], free_port()
        home = folder / "home"
        home.mkdir()
        address = (
            f'[superlink]\ndefault = "here"\n[superlink.here]\naddress = "127.0.0.1:{self.port}"\ninsecure = true\n'
        )
        (home / "config.toml").write_text(address)
        quiet = {
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.2",
        }
        path = {"OMP_NUM_THREADS": "1", "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}", "FLWR_HOME": str(home)}
        self.environment = os.environ | quiet | path

    def start(self, name, *options):
        with (self.folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                [BIN / options[0], *options[1:]],
                cwd=self.folder,
                env=self.environment,
                stdout=log,
                stderr=log,
            )
        self.started.append(process)

    def __enter__(self):
        link = ["--insecure", "--host", "127.0.0.1", "--port", str(self.port)]
        self.start("link", "flower-superlink", *link, "--disable-runtime-dependency-installation")
        for number in range(2):
            config = f"partition-id={number} seed=0"
            node = ["--insecure", "--superlink", f"127.0.0.1:{self.port}", "--port", str(free_port())]
            self.start(f"node{number}", "flower-supernode", *node, "--node-config", config)
        return self

    def __exit__(self, *error):
        for process in self.started:
            process.terminate()
        wait_for(lambda: not self.killed(), 30, "the end of Flower's processes")
        for process in self.started:
            process.wait()

    def killed(self):
        """Kill all that is left, also in sessions of its own: it is known by its FLWR_HOME. How many there were."""
        mark, count = f"FLWR_HOME={self.environment['FLWR_HOME']}".encode(), 0
        for entry in Path("/proc").glob("[0-9]*/environ"):
            with suppress(OSError):
                if mark in entry.read_bytes().split(b"\0"):
                    os.kill(int(entry.parent.name), signal.SIGKILL)
                    count += 1
        return count

    @property
    def output(self):
        return "\n".join(f"== {log.name}\n{log.read_text()[-3000:]}" for log in sorted(self.folder.glob("*.log")))

    def run(self, app):
        """Submit an app and wait for its weights and its history."""

        def submitted():
            command = [BIN / "flwr", "run", app]
            done = subprocess.run(command, env=self.environment, cwd=self.folder, capture_output=True, text=True)
            text = done.stdout + done.stderr
            assert done.returncode == 0 or "onnect" in text, text
            return done.returncode == 0

        wait_for(submitted, LIMIT, lambda: self.output)
        path = self.folder / "final.safetensors"
        wait_for(path.exists, LIMIT, lambda: self.output)
        with safe_open(path, "pt") as file:
            return file.get_tensor("weights"), json.loads(file.metadata()["history"])
