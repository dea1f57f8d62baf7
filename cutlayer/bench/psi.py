"""Alignment of two parties against the bare X25519 that any Diffie-Hellman intersection needs.

Two parties with `size` ids each (100,000 by default), half of them common. The reference is what a classic protocol
computes per party and nothing else: 2 * size plain X25519 exchanges through `cryptography`, timed in this process
(up to 100,000 of them, scaled: each costs the same). `ratio` is our core-seconds of the busier party over that.

Core-seconds count this process and those it started. Seconds are wall time with all cores, one party
after the other, so two organisations on two machines need about the longer of both plus the wire.
"""

import time

import torch
from torch import Tensor

from cutlayer.align import follow, lead, read_ids
from cutlayer.align.curve import draw_key
from cutlayer.align.kernel import cut, multiply
from cutlayer.bench.parts.timing import Figures, core_seconds
from cutlayer.blocks import cores
from cutlayer.cut import Roster
from cutlayer.errors import RunError
from cutlayer.message import Batch, Phase, Talk
from cutlayer.progress import Progress, silent
from cutlayer.session import exchange
from cutlayer.transcript import Transcript

SIZE, TIMED = 100_000, 100_000
SALT = b"cutlayer bench psi"
ROSTER = Roster("leader", ("leader", "follower"))


def timed(talk: Talk[Tensor], spent: dict[str, float]) -> Talk[Tensor]:
    """The same talk, adding up what is spent inside of it."""
    answer = None
    while True:
        wall, core = time.perf_counter(), core_seconds()
        try:
            message = talk.send(answer)
        except StopIteration as end:
            result: Tensor = end.value
            return result
        finally:
            spent["seconds"] = spent.get("seconds", 0) + time.perf_counter() - wall
            spent["core_seconds"] = spent.get("core_seconds", 0) + core_seconds() - core
        answer = yield message


def turn(size: int) -> tuple[dict[str, dict[str, float]], dict[str, int]]:
    """Align once: what each party spent, and the bytes it sent."""
    batch, transcript = Batch(0, Phase.ALIGN, torch.arange(0)), Transcript()
    columns = {"leader": range(size), "follower": range(size // 2, size // 2 + size)}
    ids = {name: read_ids(f"id-{number}" for number in column) for name, column in columns.items()}
    spent: dict[str, dict[str, float]] = {name: {} for name in columns}
    leading = lead(ids["leader"], ROSTER, batch, salt=SALT, seed=0)
    following = follow("follower", ids["follower"], ROSTER, batch, salt=SALT)
    talks: dict[str, Talk[Tensor | None]] = {
        "leader": timed(leading, spent["leader"]),
        "follower": timed(following, spent["follower"]),
    }
    rows = exchange(talks, transcript.record)
    leader, follower = rows["leader"], rows["follower"]
    if leader is None or follower is None or not torch.equal(leader, follower + size // 2):
        raise RunError("The parties found another intersection than there is: do not trust this machine.")
    return spent, {name: count["sent"] for name, count in transcript.traffic().items()}


def plain(size: int) -> float:
    """Core-seconds of 2 * size plain exchanges."""
    count = min(size, TIMED)
    points = cut(multiply([(9).to_bytes(32, "little")], draw_key()) * count)
    key = draw_key()
    start = time.process_time()
    multiply(points, key)
    return (time.process_time() - start) / count * 2 * size


def measure(repeats: int, progress: Progress = silent, size: int = SIZE) -> Figures:
    """Interleave both sides `repeats` times and compare the fastest turns."""
    reference = float("inf")
    best: dict[str, float] = {}
    sent: dict[str, int] = {}
    for number in range(repeats):
        reference = min(reference, plain(size))
        spent, sent = turn(size)
        figures = {f"{what}_{name}": value for name, costs in spent.items() for what, value in costs.items()}
        best = {name: min(value, best.get(name, value)) for name, value in figures.items()}
        progress(number + 1, repeats, "")
    busier = max(best["core_seconds_leader"], best["core_seconds_follower"])
    return {
        "ratio": busier / reference,
        "ids_each": size,
        "cores": cores.count(),
        **best,
        "core_seconds_reference": reference,
        **{f"bytes_sent_{name}": count for name, count in sent.items()},
        "bytes_per_id": sum(sent.values()) / size,
    }
