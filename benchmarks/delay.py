"""Training across a distance: seconds a step when every byte takes 25 ms each way, with and without look-ahead.

    python -m benchmarks.delay

A proxy between the two processes holds bytes back (where the kernel has `tc netem` it does the same). Without
look-ahead a step must cost one round trip plus compute. Then, on digits, what staleness costs in accuracy. Writes
results/delay.csv and results/lookahead.csv.
"""

import asyncio
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from benchmarks.results import write_table
from cutlayer import data
from cutlayer.bench.parts.federation import make_keys
from cutlayer.bench.parts.two_parties import two_processes
from cutlayer.metrics.interval import mean_interval
from cutlayer.plan import Plan
from cutlayer.training import train_plan

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
            answers, back = await asyncio.open_connection("127.0.0.1", port)
            await asyncio.gather(pipe(reader, back), pipe(answers, writer))

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
    write_table("delay.csv", "delay", lines)
    task = data.digits(parties=2)
    lines = []
    for lookahead in (0, 1, 2, 4, 8):
        accuracies = [100 * train_plan(task, Plan(seed=s, lookahead=lookahead)).metrics["accuracy"] for s in range(5)]
        mean, low, high = mean_interval(accuracies)
        lines.append({"lookahead": lookahead, "accuracy": round(mean, 2), "low": round(low, 2), "high": round(high, 2)})
        print(lines[-1], flush=True)
    write_table("lookahead.csv", "delay", lines)


if __name__ == "__main__":
    main()
