"""Soak: federations over mutual TLS whose parties are killed and stopped at random moments; same models in the end.

    make soak                        # or: python tests/long/soak.py --seed 1 --faults 20

One line per fault: who, when, and after how many seconds the others had named it. At the end of each federation its
models are compared with those of a simulation. Writes results/soak.csv.
"""

import argparse
import csv
import random
import signal
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PATIENCE = 15.0  # seconds within which the others must name a missing party
STOPPED = (12.0, 20.0)  # seconds for which a stopped party sleeps
COLUMNS = ("federation", "number", "fault", "party", "role", "at", "named_after_s", "away_s", "verdict")


def main() -> int:
    """Run both federations; 0 if all models were as expected."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--faults", type=int, default=12, help="per federation")
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "soak.csv")
    options = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    federations: Any = import_module("tests.helpers.federation")
    processes: Any = import_module("tests.helpers.processes")
    server, rows, good = processes.ForkServer(), list[dict[str, Any]](), True
    with tempfile.TemporaryDirectory() as folder:
        for place, (title, make) in enumerate({"tables-2": _tables, "digits-4": _digits}.items()):
            federation = make(federations.Federation, Path(folder) / title, server)
            faults, same = _soak(federation, title, random.Random(options.seed + place), options.faults)
            rows, good = rows + faults, good and same
    server.close()
    with options.out.open("w", newline="") as file:
        table = csv.DictWriter(file, COLUMNS)
        table.writeheader()
        table.writerows(rows)
    _summary(rows, good)
    return 0 if good else 1


def _tables(make: Any, folder: Path, server: Any) -> Any:
    """Two parties with tables of 8,000 rows, so that alignment takes seconds and can be interrupted."""
    federation = make(
        folder,
        server,
        insecure=False,
        dataset=None,
        salt="for the soak test only",
        epochs=130,
        checkpoint=50,
        bottom="mlp:hidden=16,dropout=0.1",
    )
    rng = random.Random(0)
    for place, name in enumerate(federation.names):
        lines = ["id,a,b" + ("" if place else ",y")]
        for person in rng.sample(range(9000), 8000):
            label = "" if place else f",{person % 2}"
            lines.append(f"p{person},{rng.gauss(person % 5, 1):.3f},{rng.gauss(0, 1):.3f}{label}")
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")
        federation.data[name] = {"table": f"{name}.csv", "id": "id", **({} if place else {"label": "y"})}
    return federation


def _digits(make: Any, folder: Path, server: Any) -> Any:
    """Three feature parties and a label party, with dropout and noise."""
    return make(
        folder,
        server,
        parties=4,
        insecure=False,
        epochs=400,
        checkpoint=40,
        bottom="mlp:hidden=16,dropout=0.2",
        defences=("gaussian-noise:std=0.1", "max-norm"),
    )


def _soak(federation: Any, title: str, rng: random.Random, faults: int) -> tuple[list[dict[str, Any]], bool]:
    """One federation, from its start to the comparison of its models."""
    for name in federation.names:
        federation.party[name]["wait"] = 120
    print(f"{title}: simulating", flush=True)
    expected = federation.simulate()["models"]
    federation.start()
    rows = []
    kinds = ["stop" if number % 7 == 3 else "kill" for number in range(faults)]
    for number, kind in enumerate(kinds):
        victim = federation.names[number % len(federation.names)]
        if number >= faults // 2:  # the first half at any moment, the second half in training
            _wait_training(federation, victim)
        time.sleep(rng.uniform(0, 1.5))  # the moment is the point
        if federation.processes[victim].ended:
            print(f"{title}: finished before fault {number + 1}", flush=True)
            break
        rows.append(_fault(federation, title, number + 1, kind, victim, rng))
        print("  ".join(str(rows[-1][column]) for column in COLUMNS), flush=True)
    same = federation.finish(600) == expected
    print(f"{title}: {'the same models' if same else 'OTHER MODELS'} as without faults", flush=True)
    for row in rows:
        row["verdict"] = "same models" if same else "other models"
    return rows, same


def _fault(federation: Any, title: str, number: int, kind: str, victim: str, rng: random.Random) -> dict[str, Any]:
    """Kill or stop one party, time how long the others take to name it, and bring it back."""
    process = federation.processes[victim]
    others = {name: other for name, other in federation.processes.items() if name != victim}
    step, began = federation.step(victim), time.monotonic()
    already = all(_misses(other.stderr, victim) for other in others.values())  # it had not come yet
    away = rng.uniform(*STOPPED) if kind == "stop" else rng.uniform(0, 1)
    process.send(signal.SIGSTOP if kind == "stop" else signal.SIGKILL)
    named: dict[str, float] = {}
    while len(named) < len(others) and time.monotonic() - began < PATIENCE:
        for name, other in others.items():
            if name not in named and _misses(other.stderr, victim):
                named[name] = time.monotonic() - began
        time.sleep(0.02)
    time.sleep(max(0.0, away - (time.monotonic() - began)))
    if kind == "stop":
        process.send(signal.SIGCONT)
    else:
        process.end()
        federation.start(victim)
    return {
        "federation": title,
        "number": number,
        "fault": kind,
        "party": victim,
        "role": "label" if victim == federation.names[0] else "feature",
        "at": f"step {step}" if step >= 0 else "handshake or alignment",
        "named_after_s": "already missing" if already else _latest(named, len(others)),
        "away_s": f"{time.monotonic() - began:.1f}",
        "verdict": "",
    }


def _wait_training(federation: Any, victim: str) -> None:
    """Wait until a party continues its training."""
    before, end = federation.step(victim), time.monotonic() + 120
    while federation.step(victim) <= max(before, 0) and time.monotonic() < end:
        if federation.processes[victim].ended:
            return
        time.sleep(0.01)


def _latest(named: dict[str, float], others: int) -> str:
    return f"{max(named.values()):.2f}" if len(named) == others else "not named by all"


def _misses(log: str, victim: str) -> bool:
    """Whether the last line that names a party says that it is missing."""
    lines = [line for line in log.splitlines() if victim in line]
    return bool(lines) and any(word in lines[-1] for word in ("is gone", "Waiting", "waits for"))


def _summary(rows: list[dict[str, Any]], good: bool) -> None:
    kills = sum(row["fault"] == "kill" for row in rows)
    named = [float(row["named_after_s"]) for row in rows if row["named_after_s"][0].isdigit()]
    already = sum(row["named_after_s"] == "already missing" for row in rows)
    print(
        f"{kills} kills and {len(rows) - kills} stops; named by all others in {len(named)} cases, after at most "
        f"{max(named, default=0):.1f} seconds, {already} were missing already, {len(rows) - len(named) - already} were "
        f"not named; models {'identical' if good else 'DIFFERENT'}."
    )


if __name__ == "__main__":
    sys.exit(main())
