"""Malformed frames by the million: `python -m tests.long.fuzz [--frames 1000000]`; writes results/fuzz.json.

Valid frames of every kind are mutated, by atheris where it is installed (`pip install atheris`; guided by the code that
they reach) and by a mutator that knows the schema. tests/net/wire/test_fuzz.py feeds the same target.
"""

import argparse
import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from cutlayer.version import __version__
from tests.helpers.fuzz_corpus import corpus, make_keys
from tests.helpers.fuzz_mutations import mutate
from tests.helpers.fuzz_target import SLOW, Target

RESULTS = Path(__file__).parents[2] / "results" / "fuzz.json"


def _hang(number: int, at: Any) -> None:
    raise TimeoutError(f"more than {SLOW} seconds")


def run(target: Target, frames: int, seed: int) -> None:
    """Own mutations of the corpus, until so many frames were malformed; every tenth input is traced."""
    rng, start = random.Random(seed), corpus(target.keys)
    while target.tally.malformed < frames and len(target.tally.broken) < 100:
        target.watch(mutate(rng.choice(start), rng, start), trace=target.tally.inputs % 10 == 0)


def guided(target: Target, frames: int, seed: int, out: Path, folder: Path) -> None:
    """Mutations by atheris, guided by the code that they reach; ends the process."""
    import atheris  # type: ignore[import-not-found, import-untyped, unused-ignore]

    start, rng = corpus(target.keys), random.Random(seed)
    (folder / "corpus").mkdir()
    for number, data in enumerate(start):
        (folder / "corpus" / str(number)).write_bytes(data)

    def one_input(data: bytes) -> None:
        target.watch(data, trace=target.tally.inputs % 10 == 0)
        if target.tally.malformed >= frames or len(target.tally.broken) >= 100:
            out.write_text(json.dumps(asdict(target.tally)))
            os._exit(0)

    def mutator(data: bytes, most: int, seed: int) -> bytes:
        if rng.random() < 0.5:
            return mutate(data, rng, start)[:most]
        return bytes(atheris.Mutate(data, most))

    arguments = [
        sys.argv[0],
        str(folder / "corpus"),
        f"-seed={seed + 1}",
        "-max_len=8192",
        "-verbosity=0",
        "-timeout=60",
    ]
    atheris.Setup(arguments, one_input, custom_mutator=mutator)
    atheris.Fuzz()


def main() -> None:
    """Half of the frames by atheris, if it is there, and the rest by our own mutator; each in its own process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--frames", type=int, default=1_000_000, help="malformed frames")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--child", choices=("own", "atheris"), help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    if options.child is None:
        lead(options.frames, options.seed, options.out)
        return
    signal.signal(signal.SIGALRM, _hang)
    with tempfile.TemporaryDirectory() as folder:
        target = Target(make_keys(Path(folder)))
        if options.child == "atheris":
            guided(target, options.frames, options.seed, options.out, Path(folder))
        run(target, options.frames, options.seed)
        options.out.write_text(json.dumps(asdict(target.tally)))


def lead(frames: int, seed: int, out: Path) -> None:
    """Start both, add up, print and write."""
    code = "import atheris, runpy, sys\nwith atheris.instrument_imports(include=['cutlayer.net', 'cutlayer.wire']):\n"
    code += "    import tests.long.fuzz as fuzz\nfuzz.main()"
    has_atheris = subprocess.run([sys.executable, "-c", "import atheris"], capture_output=True).returncode == 0
    record: dict[str, Any] = {"cutlayer": __version__, "seed": seed}
    with tempfile.TemporaryDirectory() as folder:
        for method in ("atheris", "own") if has_atheris else ("own",):
            began, file = time.perf_counter(), Path(folder) / method
            start = [sys.executable, "-c", code] if method == "atheris" else [sys.executable, "-m", "tests.long.fuzz"]
            share = frames // 2 if has_atheris else frames
            options = ["--child", method, "--frames", str(share), "--seed", str(seed), "--out", str(file)]
            environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
            done = subprocess.run([*start, *options], env=environment, capture_output=True, text=True)
            if not file.exists():
                raise SystemExit(f"{method} crashed with {done.returncode}:\n{done.stderr[-3000:]}")
            record[method] = json.loads(file.read_text())
            record[method]["seconds"] = round(time.perf_counter() - began)
            record[method]["most_resident_mib"] = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024
    tallies = [record[method] for method in ("atheris", "own") if method in record]
    record["corpus"] = "openings, 11 topics, 6 kinds in 3 phases, relayed keys"
    record["malformed"] = sum(tally["malformed"] for tally in tallies)
    record["broken"] = sum(len(tally["broken"]) for tally in tallies)
    out.write_text(json.dumps(record, indent=2) + "\n")
    for tally in tallies:
        print({key: value for key, value in tally.items() if key not in ("refusals", "broken")})
    print(f"{record['malformed']} malformed frames, {record['broken']} crashes, hangs or allocations over the cap")


if __name__ == "__main__":
    main()
