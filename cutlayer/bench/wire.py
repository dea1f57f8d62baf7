"""Messages and training over mutual TLS on loopback, against raw TCP, plain gRPC and the same training in one process.

Round trips of 64 KiB: `tcp` is a bare socket, `unary` and `grpc` a bare call and a bare stream of gRPC under the same
TLS, `ours` the numbered, checked and confirmed frames that parties exchange. `ratio` is ours over the bare stream.
Training: two parties of 392-32-10 (and of LeNet on half a picture), batch 256, in two processes over mutual TLS against
one process; both count the same steps, ledger and checkpoints included.
"""

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from cutlayer.bench.parts import round_trip, two_parties
from cutlayer.bench.parts.federation import make_keys
from cutlayer.bench.parts.timing import Figures
from cutlayer.progress import Progress, silent

ROUND_TRIPS: dict[str, Callable[[Path], float]] = {
    "tcp": round_trip.tcp,
    "unary": round_trip.unary,
    "grpc": round_trip.bare_stream,
    "ours": round_trip.ours,
}


def measure(repeats: int, progress: Progress = silent) -> Figures:
    """Interleave all sides `repeats` times and compare the fastest turns: other work only ever adds time."""
    best: dict[str, float] = {}
    sides: dict[str, Callable[[Path], float]] = dict(ROUND_TRIPS)
    for name in two_parties.TASKS:
        sides[f"{name}, one process"] = partial(_in_one, name)
        sides[f"{name}, two processes"] = partial(two_parties.two_processes, name)
    with tempfile.TemporaryDirectory() as folder:
        make_keys(Path(folder))
        for turn in range(repeats):
            for number, (name, side) in enumerate(sides.items()):
                best[name] = min(best.get(name, float("inf")), side(Path(folder)))
                progress(turn * len(sides) + number + 1, repeats * len(sides), "")
    return {
        "ratio": best["ours"] / best["grpc"],
        "ratio_to_unary": best["ours"] / best["unary"],
        "ratio_to_raw_tcp": best["ours"] / best["tcp"],
        "grpc_to_raw_tcp": best["grpc"] / best["tcp"],
        **{f"{name}_milliseconds": 1000 * best[name] for name in ROUND_TRIPS},
        **{
            f"{name}_throughput_over_one_process": best[f"{name}, one process"] / best[f"{name}, two processes"]
            for name in two_parties.TASKS
        },
        **{f"{name}_milliseconds_a_step": 1000 * best[f"{name}, two processes"] for name in two_parties.TASKS},
    }


def _in_one(name: str, folder: Path) -> float:
    return two_parties.one_process(name)
