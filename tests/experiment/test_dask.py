"""The same cells on a Dask cluster: a scheduler and two workers, each a process of its own."""

import json
import os
import subprocess
import sys
import time

import pytest

from cutlayer.errors import ConfigError
from cutlayer.experiment.conduct import conduct
from cutlayer.experiment.workers import dask_cluster
from tests.helpers.small_study import make, timeless


@pytest.fixture
def cluster(tmp_path):
    """The scheduler's address."""
    file = tmp_path / "scheduler.json"
    environment = os.environ | {"OMP_NUM_THREADS": "1"}

    def start(*command):
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "env": environment, "cwd": tmp_path}
        return subprocess.Popen([sys.executable, "-m", "dask", *command, "--scheduler-file", str(file)], **quiet)

    processes = [start("scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard")]
    worker = ("worker", "--host", "127.0.0.1", "--nthreads", "1", "--no-nanny", "--no-dashboard")
    processes += [start(*worker), start(*worker)]
    try:
        deadline = time.monotonic() + 60
        while not file.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        yield json.loads(file.read_text())["address"]
    finally:
        for process in processes:
            process.kill()
            process.wait()


@pytest.mark.filterwarnings("ignore")  # of dask itself
def test_a_cluster_gives_the_same_findings(cluster, tmp_path):
    executor = dask_cluster(cluster)
    try:
        executor._client.wait_for_workers(2, timeout=60)
        study = make(seeds=(0,))
        there = conduct(study, tmp_path / "there", executor=executor)
        assert timeless(there) == timeless(conduct(study, tmp_path / "here", workers=1))
        assert len(executor._client.has_what()) == 2
    finally:
        executor._client.close()


@pytest.mark.filterwarnings("ignore")
def test_no_scheduler_no_audit(monkeypatch):
    monkeypatch.setattr("cutlayer.experiment.workers.PATIENCE", 1)
    with pytest.raises(ConfigError, match=r"Expected a Dask scheduler at tcp://127\.0\.0\.1:9"):
        dask_cluster("tcp://127.0.0.1:9")
