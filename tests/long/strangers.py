"""Strangers at the label party's port while two honest parties go on: `python -m tests.long.strangers`.

Every stranger must be refused with a text that is always the same, the honest exchange must go on, and memory must not
keep growing. Prints a table and writes results/strangers.csv. tests/net/peers/test_strangers.py tries the same.
"""

import csv
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.helpers.stranger_scene import SECONDS, Scene, resident
from tests.helpers.strangers import SLOW, STRANGERS, flood, half_open, newcomer

RESULTS = Path(__file__).parents[2] / "results" / "strangers.csv"


@dataclass
class Row:
    """One line of the table."""

    stranger: str
    tries: int
    answer: str
    exchanges: int
    worst_ms: float
    memory_mib: float


def measure(scene: Scene, name: str, act: Callable[[Scene], str], tries: int, connections: int = 1) -> Row:
    """Let a stranger try, and see how the honest parties fare meanwhile."""
    before, count, scene.worst = resident(), scene.exchanges, 0.0
    answers = sorted({act(scene) for _ in range(tries)})
    assert scene.goes_on(), f"the honest parties stopped: {scene.disturbed}"
    spent = (resident() - before) / (1 << 20)
    row = Row(name, tries * connections, " / ".join(answers), scene.exchanges - count, scene.worst * 1000, spent)
    print(
        f"{name:34} {row.tries:6} {row.answer:40} {row.exchanges:6} {row.worst_ms:8.1f} {row.memory_mib:8.1f}",
        flush=True,
    )
    return row


def nobody(scene: Scene) -> str:
    """Five seconds without strangers, to compare with."""
    time.sleep(5)
    return "-"


def main() -> None:
    """All strangers, one after another."""
    with tempfile.TemporaryDirectory() as folder, Scene(Path(folder)) as scene:
        assert scene.goes_on()
        print(f"{'stranger':34} {'tries':>6} {'what it gets':40} {'words':>6} {'worst ms':>8} {'MiB':>8}")
        rows = [measure(scene, "nobody", nobody, 1)]
        rows += [measure(scene, name, act, 100) for name, act in STRANGERS.items()]
        rows += [measure(scene, name, act, 1) for name, act in SLOW.items()]
        for turn in ("", ", again", ", a third time"):
            rows.append(measure(scene, f"10,000 half-open{turn}", lambda scene: half_open(scene, 10_000), 1, 10_000))
        rows.append(measure(scene, "an honest newcomer", newcomer, 1))
        child = flood(scene, 2_000, 40, again=True)
        rows.append(measure(scene, "the same, 2,000 held half-open", newcomer, 1))
        child.communicate(timeout=SECONDS)
        rows.append(measure(scene, "the same, right after that", newcomer, 1))
        print(f"events that disturbed the honest parties: {len(scene.disturbed)}")
        print(f"lines in the log: {len(scene.lines)}", *scene.lines, sep="\n  ")
    with RESULTS.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["stranger", "tries", "got", "honest_exchanges", "worst_exchange_ms", "memory_growth_mib"])
        for row in rows:
            numbers = (f"{row.worst_ms:.1f}", f"{row.memory_mib:.1f}")
            writer.writerow([row.stranger, row.tries, row.answer, row.exchanges, *numbers])


if __name__ == "__main__":
    main()
