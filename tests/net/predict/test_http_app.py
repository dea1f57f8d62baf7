"""Online prediction with real processes: train, predict a file, serve requests, lose a party and get it back."""

import csv
import json
import re
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from tests.helpers.finished_run import write_files, write_tables
from tests.helpers.waiting import free_port, wait_for


@pytest.fixture
def start(fork_server, tmp_path):
    """Start a real process by a verb and a party's name; it ends with the test."""
    processes = []

    def start(verb, name, *options):
        log = tmp_path / f"log-{len(processes)}.txt"
        processes.append(fork_server.start(name, [verb, tmp_path / f"{name}.toml", *options, "--insecure"], log))
        return processes[-1]

    yield start
    for process in processes:
        if not process.ended:
            process.kill()


def test_train_predict_and_serve_with_real_processes(tmp_path, start):
    http = free_port()
    write_tables(tmp_path)
    write_files(tmp_path, port=free_port(), http=http, seed=False)
    trained = [start("party", name) for name in ("bank", "shop")]
    assert [process.end() for process in trained] == [0, 0], [process.stderr for process in trained]

    (tmp_path / "people.csv").write_text("customer\n" + "".join(f"c{number}\n" for number in range(300)))
    shop = start("predict", "shop", "--forever")
    batch = start("predict", "bank", "--ids", tmp_path / "people.csv", "--out", tmp_path / "out.csv", "--json")
    assert batch.end() == 0, batch.stderr
    rows = {row["id"]: row for row in csv.DictReader((tmp_path / "out.csv").read_text().splitlines())}
    assert rows["c3"]["missing_at"] == "shop" and rows["c290"]["missing_at"] == "bank" and rows["c99"]["predicted"]

    bank = start("predict", "bank", "--serve")
    with httpx.Client(base_url=f"http://127.0.0.1:{http}", timeout=30) as client:
        wait_for_health(client, 200)
        reply = client.post("/predict", json={"ids": ["c99", "c3", 7]}, headers={"X-Request-ID": "r-1"})
        assert reply.status_code == 200 and reply.headers["x-request-id"] == "r-1"
        result = reply.json()
        assert result["request_id"] == "r-1" and result["predictions"][1]["missing_at"] == ["shop"]
        assert result["predictions"][0]["predicted"] == rows["c99"]["predicted"]
        yes = result["predictions"][0]["probabilities"]["yes"]
        assert yes == pytest.approx(float(rows["c99"]["probability_yes"]), abs=1e-6)
        bad_requests(client)
        with ThreadPoolExecutor(20) as pool:
            replies = pool.map(lambda number: client.post("/predict", json=question(number)), range(20))
            assert {reply.status_code for reply in replies} == {200}
        metrics = client.get("/metrics").text
        assert 'cutlayer_requests_total{code="200"} 21' in metrics and 'connected{party="shop"} 1' in metrics

        shop.kill()
        wait_for_health(client, 503)
        assert client.get("/health").json()["missing"] == ["shop"]
        began = time.monotonic()
        lost = client.post("/predict", json={"ids": ["c99"]})
        assert lost.status_code == 503 and lost.json()["missing"] == ["shop"] and time.monotonic() - began < 12
        assert 'connected{party="shop"} 0' in client.get("/metrics").text

        start("predict", "shop", "--forever")
        wait_for_health(client, 200)
        assert client.post("/predict", json={"ids": ["c99"]}).json()["predictions"] == result["predictions"][:1]
    bank.send(signal.SIGTERM)
    assert bank.end() == 0
    log = bank.stderr
    assert "predict 200" in log and "r-1" in log and not re.search(r"\bc\d+\b", log)


def wait_for_health(client, code):
    """Wait until the service's health is as wanted."""

    def has_code():
        try:
            return client.get("/health").status_code == code
        except httpx.TransportError:
            return False

    wait_for(has_code, what=f"health {code}")


def question(number):
    return {"ids": [f"c{person}" for person in range(10 * number, 10 * number + 40)]}


def bad_requests(client):
    """Each gets its status code and one sentence that does not repeat what came."""
    for body, code in [
        (b"no json", 400),
        (b'{"ids": []}', 422),
        (b'{"ids": "secret-17"}', 422),
        (b'{"ids": [1.5]}', 422),
        (b'{"ids": [true]}', 422),
        (b'{"ids": ["secret-17"], "more": 1}', 422),
        (json.dumps({"ids": ["secret-17" * 40]}).encode(), 422),
        (json.dumps({"ids": ["secret-17"] * 4097}).encode(), 422),
        (b" " * (3 << 20), 413),
    ]:
        reply = client.post("/predict", content=body, headers={"Content-Type": "application/json"})
        assert reply.status_code == code, (body[:40], reply.text)
        assert reply.json()["error"].startswith("Expected") and "secret" not in reply.text
    assert client.get("/predict").status_code == 405 and client.get("/nothing").status_code == 404
    assert len(client.get("/health", headers={"X-Request-ID": "a b\tc"}).headers["x-request-id"]) == 16
    described = client.get("/openapi.json").json()
    assert described["components"]["schemas"]["Question"]["examples"] == [{"ids": ["c17", "c23"]}]
