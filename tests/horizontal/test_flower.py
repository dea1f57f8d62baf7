"""Flower: real SuperLink and SuperNodes on this machine end with the bits of the simulation; and strangers' answers."""

import json
import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file

pytest.importorskip("flwr")

import cutlayer as cl
from cutlayer.defences import Passport
from cutlayer.errors import ConfigError
from cutlayer.horizontal import federate
from cutlayer.horizontal.federation import Federation
from cutlayer.horizontal.flower import _read, _written, client_app, server_app, sorted_out
from cutlayer.plan import Plan
from cutlayer.weights import pack
from tests.net.processes import free_port, wait_for

EXAMPLE = Path(__file__).parents[2] / "examples" / "flower"
BIN = Path(sys.executable).parent
TASK = cl.data.digits(parties=1, label_party="server")
RECIPE = cl.Recipe(batch_size=32, optimiser=cl.Optimiser.SGD, lr=0.05)
PASSPORT = Passport(mean_range=10.0, variance=1.0, where="bottom")


class Flower:
    """A SuperLink and two SuperNodes, each with all it starts in a process group of its own."""

    def __init__(self, folder):
        self.folder, self.started, self.port = folder, [], free_port()
        home = folder / "home"
        home.mkdir()
        address = f'[superlink]\ndefault = "here"\n[superlink.here]\naddress = "127.0.0.1:{self.port}"\ninsecure = true\n'
        (home / "config.toml").write_text(address)
        quiet = {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1", "OMP_NUM_THREADS": "1"}
        path = {"PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}", "FLWR_HOME": str(home)}
        self.environment = os.environ | quiet | path

    def start(self, name, *options):
        with (self.folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                [BIN / options[0], *options[1:]],
                cwd=self.folder,
                env=self.environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.started.append(process)

    def __enter__(self):
        link = ["--insecure", "--host", "127.0.0.1", "--port", str(self.port)]
        self.start("link", "flower-superlink", *link, "--disable-runtime-dependency-installation")
        for number in range(2):
            config = f'partition-id={number} seed=0 keep="client{number}.safetensors"'
            node = ["--insecure", "--superlink", f"127.0.0.1:{self.port}", "--port", str(free_port())]
            self.start(f"node{number}", "flower-supernode", *node, "--node-config", config)
        return self

    def __exit__(self, *error):
        for process in self.started:
            for how in (signal.SIGTERM, signal.SIGKILL):
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, how)
                with suppress(subprocess.TimeoutExpired):
                    process.wait(3)

    @property
    def said(self):
        return "\n".join(f"== {log.name}\n{log.read_text()[-3000:]}" for log in sorted(self.folder.glob("*.log")))

    def run(self, app, final):
        """Submit an app and wait for its weights and its history."""
        command = [BIN / "flwr", "run", app, "--run-config", f'final="{final}" timeout=60.0']

        def submitted():
            done = subprocess.run(command, env=self.environment, cwd=self.folder, capture_output=True, text=True)
            assert done.returncode == 0 or "onnect" in done.stdout + done.stderr, done.stdout + done.stderr
            return done.returncode == 0

        wait_for(submitted, 30, lambda: self.said)
        path = self.folder / final
        wait_for(path.exists, 60, lambda: self.said)
        with safe_open(path, "pt") as file:
            return file.get_tensor("weights"), json.loads(file.metadata()["history"])


@pytest.fixture(scope="module")
def flower(tmp_path_factory):
    with Flower(tmp_path_factory.mktemp("flower")) as started:
        yield started


@pytest.mark.parametrize("method", ["private-bottom", "fedavg"])
def test_it_ends_with_the_bits_of_the_simulation(flower, method):
    app = flower.folder / method
    shutil.copytree(EXAMPLE, app, ignore=shutil.ignore_patterns("__pycache__"))
    defences = [PASSPORT]
    if method == "fedavg":
        defences, file = [], app / "federated.py"
        text = "\n".join(line for line in file.read_text().splitlines() if "Passport(" not in line)
        file.write_text(text.replace("private-bottom", "fedavg"))
    weights, history = flower.run(app, f"{method}.safetensors")
    expected = federate(TASK, clients=2, rounds=2, recipe=RECIPE, method=method, defences=defences)
    assert history == [{"round": turn, "absent": [], "refused": {}} for turn in range(2)], flower.said
    assert torch.equal(weights, expected.server.weights)
    for name, client in expected.clients.items():  # it is kept in the node between processes, and stays there
        kept = load_file(flower.folder / f"{name}.safetensors")
        for key, value in client.bottom.state_dict().items():
            assert torch.equal(kept[f"model/bottom/{key}"], value), key
