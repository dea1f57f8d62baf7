"""Training across a distance: seconds a step when every byte takes 25 ms each way, with and without look-ahead.

    python benchmarks/delay.py

A proxy between the two processes holds bytes back (where the kernel has `tc netem` it does the same). Without
look-ahead a step must cost one round trip plus compute. Then, on digits, what staleness costs in accuracy. Writes
results/delay.csv and results/lookahead.csv.
"""

import asyncio
import csv
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from cutlayer import data
from cutlayer.bench.parts.federation import make_keys
from cutlayer.bench.parts.two_parties import two_processes
from cutlayer.metrics.interval import mean_interval
from cutlayer.plan import Plan
from cutlayer.training import train_plan

RESULTS = Path(__file__).parent.parent / "results"
ONE_WAY = 0.025


def delaying(seconds: float) -> Callable[[int], AbstractContextManager[int]]:
    """A proxy that hands every byte on after so many seconds."""

    async def pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        loop = asyncio.get_running_loop()
        while chunk := await reader.read(1 << 16):
            loop.call_later(seconds, writer.write, chunk)

    @contextmanager
    def between(port: int) -> Iterator[int]:
        loop = asyncio.new_event_loop()

        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            there, back = await asyncio.open_connection("127.0.0.1", port)
            await asyncio.gather(pipe(reader, back), pipe(there, writer))

        server = loop.run_until_complete(asyncio.start_server(accept, "127.0.0.1", 0))
        threading.Thread(target=loop.run_forever, daemon=True).start()
        yield server.sockets[0].getsockname()[1]

    return between


def main() -> None:
    """Measure and print."""
    lines: list[dict[str, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        make_keys(Path(folder))
        for delay in (0.0, ONE_WAY):
            for lookahead in (0, 1, 2, 4) if delay else (0,):
                seconds = two_processes("mlp", Path(folder), lookahead, delaying(delay))
                trips = (seconds - lines[0]["milliseconds a step"] / 1000) / (2 * delay) if lines else 0.0
                lines.append(
                    {
                        "round trip, ms": 2000 * delay,
                        "lookahead": lookahead,
                        "milliseconds a step": round(1000 * seconds, 2),
                        "round trips a step beyond compute": round(trips, 2),
                    }
                )
                print(lines[-1], flush=True)
    _write("delay.csv", lines)
    task = data.digits(parties=2)
    lines = []
    for lookahead in (0, 1, 2, 4, 8):
        found = [100 * train_plan(task, Plan(seed=s, lookahead=lookahead)).metrics["accuracy"] for s in range(5)]
        mean, low, high = mean_interval(found)
        lines.append({"lookahead": lookahead, "accuracy": round(mean, 2), "low": round(low, 2), "high": round(high, 2)})
        print(lines[-1], flush=True)
    _write("lookahead.csv", lines)


def _write(name: str, lines: list[dict[str, float]]) -> None:
    with (RESULTS / name).open("w", newline="") as file:
        file.write("# python benchmarks/delay.py\n")
        writer = csv.DictWriter(file, list(lines[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)


if __name__ == "__main__":
    main()
