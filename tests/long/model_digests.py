"""Model digests: twenty-four configurations whose models must keep every bit while the code around them changes.

    python tests/long/model_digests.py            # compare with results/model-digests.json; exit code 1 if any differs
    python tests/long/model_digests.py --write    # write that file: after a change that is meant to change models

Every configuration goes through the command line, so it does not care where the code lives. Bits depend on the machine
and on the versions of torch and numpy: compare with a file that was written on the same machine.
"""

import argparse
import csv
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
STORE = ROOT / "results" / "model-digests.json"
LIMIT = 240.0  # seconds for anything

DIGITS = "--data digits --epochs 2"
CANCER = "--data breast-cancer --epochs 3 --batch-size 64"
TRAINED = {
    "concat": DIGITS,
    "sum": f"{DIGITS} --cut sum",
    "secure-sum": f"{DIGITS} --cut secure-sum --bottom linear --batch-size 512 --epochs 1",
    "encrypted-layer": f"{DIGITS} --cut encrypted-layer --batch-size 512 --epochs 1",
    "gaussian-noise": f"{DIGITS} --defence gaussian-noise:std=0.3",
    "label-dp": f"{DIGITS} --defence label-dp:epsilon=2",
    "max-norm": f"{CANCER} --defence max-norm",
    "marvell": f"{CANCER} --defence marvell",
    "hash": f"{DIGITS} --defence hash:bits=8",
    "greedy-hash": f"{DIGITS} --defence greedy-hash",
    "dp-sgd": f"{DIGITS} --defence dp-sgd",
    "passport": f"{DIGITS} --defence passport",
    "instahide": f"{DIGITS} --defence instahide",
    "mutual-information": f"{DIGITS} --defence mutual-information",
    "confusional-autoencoder": f"{DIGITS} --defence confusional-autoencoder",
    "staged label-dp": f"{DIGITS} --defence label-dp:epsilon=1,stages=2,first=1",
    "composed": f"{DIGITS} --defence gaussian-noise:std=0.1 --defence max-norm --defence sparsification:share=0.2",
    "three parties": f"{DIGITS} --parties 3 --bottom mlp:hidden=32,dropout=0.2",
    "recipe": f"{DIGITS} --optimiser sgd --lr 0.05 --weight-decay 1e-4 --schedule steps:every=1 --top mlp:hidden=16",
    "patience": f"{DIGITS} --valid 0.2 --patience 1 --epochs 6",
    "greedy": f"{DIGITS} --greedy {{greedy}}",
    "table": "--table table.csv --label y --party bank=a,b --party shop=c,d --epochs 3 --batch-size 32",
}


def command(*words: str) -> list[str]:
    """A call of the command line."""
    return [sys.executable, "-m", "cutlayer", *words]


def environment() -> dict[str, str]:
    """One thread: sums, and so bits, depend on their number."""
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}


def call(folder: Path, words: str) -> None:
    """Run a command to its end."""
    done = subprocess.run(command(*words.split()), cwd=folder, env=environment(), capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"cutlayer {words}: exit code {done.returncode}: {done.stderr[-1500:]}")


def digests(run: Path) -> dict[str, str]:
    """The digests of the models in run.json."""
    models: dict[str, str] = json.loads((run / "run.json").read_text())["models"]
    return models


def wait_for(condition: Callable[[], bool], what: str) -> None:
    """Wait until a condition holds."""
    end = time.monotonic() + LIMIT
    while not condition():
        if time.monotonic() > end:
            raise SystemExit(f"Waited {LIMIT:.0f} seconds for {what}.")
        time.sleep(0.02)


def write_table(path: Path) -> None:
    """A made-up table of 300 people."""
    rng = random.Random(0)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["a", "b", "c", "d", "y"])
        for _ in range(300):
            a, b, c = rng.gauss(0, 1), rng.choice("xyz"), rng.gauss(0, 1)
            writer.writerow([f"{a:.4f}", b, f"{c:.4f}", rng.randint(0, 5), "yes" if a + c > 0 else "no"])


def resumed(folder: Path) -> dict[str, str]:
    """A training that is killed after its first checkpoint and goes on."""
    words = "train --data digits --epochs 60 --defence gaussian-noise:std=0.1 --out resumed"
    process = subprocess.Popen(
        command(*words.split()), cwd=folder, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    checkpoint = folder / "resumed" / "checkpoint"
    wait_for(lambda: checkpoint.exists() and any(checkpoint.iterdir()), "the first checkpoint")
    process.send_signal(signal.SIGKILL)
    process.wait()
    call(folder, f"{words} --resume")
    return digests(folder / "resumed")


def deployed(folder: Path, name: str, run: str) -> dict[str, str]:
    """Two parties in two processes, over the loopback, without TLS."""
    place = folder / name
    place.mkdir()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    agreed = f'parties = ["party1", "party2"]\nlabel_party = "party1"\n{run}'
    for party, seed, where in (("party1", 11, "listen"), ("party2", 22, "connect")):
        text = f'[party]\nname = "{party}"\n{where} = "127.0.0.1:{port}"\nseed = {seed}\nwait = 120\n\n'
        text += f'[run]\ndataset = "digits"\n{agreed}\n'
        (place / f"{party}.toml").write_text(text)
    both = [
        subprocess.Popen(
            command("party", f"{party}.toml", "--insecure"),
            cwd=place,
            env=environment(),
            stderr=(place / f"{party}.log").open("w"),
            stdout=subprocess.DEVNULL,
        )
        for party in ("party2", "party1")
    ]
    for process in both:
        if process.wait(LIMIT):
            raise SystemExit(f"{name}: " + "".join((place / f"party{n}.log").read_text()[-800:] for n in (1, 2)))
    return {**digests(place / "party1-run"), **digests(place / "party2-run")}


def all_digests(folder: Path, only: list[str]) -> dict[str, dict[str, str]]:
    """Every configuration, with the sha256 of each of its models."""
    write_table(folder / "table.csv")
    first = "party2"  # the party of digits without labels
    jobs: dict[str, Callable[[], dict[str, str]]] = {}
    for name, words in TRAINED.items():
        out = name.replace(" ", "-")

        def trained(words: str = words, out: str = out) -> dict[str, str]:
            call(folder, f"train {words.format(greedy=first)} --out {out}")
            return digests(folder / out)

        jobs[name] = trained
    jobs["resumed"] = lambda: resumed(folder)
    noisy = 'epochs = 2\nbottom = "mlp:hidden=16,dropout=0.2"\ndefences = ["gaussian-noise:std=0.1", "max-norm"]'
    jobs["deployed"] = lambda: deployed(folder, "deployed", noisy)
    jobs["deployed with look-ahead"] = lambda: deployed(folder, "ahead", "epochs = 2\nlookahead = 2")
    results = {}
    for name, job in jobs.items():
        if not only or name in only:
            began = time.monotonic()
            results[name] = job()
            print(f"{name}: {len(results[name])} models, {time.monotonic() - began:.1f} s", flush=True)
    return results


def main() -> int:
    """Compare, or write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write the file instead of comparing with it")
    parser.add_argument("--only", nargs="*", default=[], help="configurations by name")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        results = all_digests(Path(folder), options.only)
    if options.write:
        STORE.write_text(json.dumps(results, indent=1) + "\n")
        print(f"wrote {STORE.relative_to(ROOT)}")
        return 0
    before: dict[str, Any] = json.loads(STORE.read_text())
    wrong = [name for name, models in results.items() if before.get(name) != models]
    print(f"{len(results) - len(wrong)} of {len(results)} configurations have the models they had")
    for name in wrong:
        print(f"OTHER MODELS: {name}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
