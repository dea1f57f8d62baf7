"""Outcomes: what units of work gave, in a file of JSON lines. Each is stored the moment it exists: work resumes."""

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from cutlayer.errors import RunError
from cutlayer.experiment.finding_row import FindingRow
from cutlayer.experiment.unit import PartWords
from cutlayer.finding import Status


class Outcome(PartWords, total=False):
    """What came of a part, as a line of JSON; of a training that failed or was refused, only why."""

    key: str
    status: str
    reason: str
    metrics: dict[str, float]
    losses: list[float]
    bytes: dict[str, dict[str, int]]
    steps: int
    train_seconds: float
    notes: list[str]
    attacks: dict[str, list[FindingRow]]
    checks: dict[str, dict[str, float]]
    device: str
    seconds: float


class Outcomes(Mapping[str, Outcome]):
    """The outcomes in a file, by their keys. Of two lines with one key the later counts.

    A line that a crash cut short is skipped, and its work is done again. Lines are appended with one call each, so
    two processes that write to one file do not cut each other's lines.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        text = path.read_bytes() if path.exists() else b""
        self._broken = bool(text) and not text.endswith(b"\n")
        self._outcomes: dict[str, Outcome] = {}
        for line in text.splitlines():
            try:
                outcome: Outcome = json.loads(line)
            except ValueError:
                continue
            if "key" not in outcome or "status" not in outcome:
                raise RunError(f"Expected outcomes in {path}, got a line of another version; move the file away.")
            self._outcomes[outcome["key"]] = outcome

    def __getitem__(self, key: str) -> Outcome:
        return self._outcomes[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._outcomes)

    def __len__(self) -> int:
        return len(self._outcomes)

    def settled(self, key: str) -> bool:
        """Whether this need not be done again: what failed (a full disk, a bug) is tried once more."""
        return key in self._outcomes and self._outcomes[key]["status"] != Status.FAILED

    def add(self, outcome: Outcome) -> None:
        """Store an outcome, on the disk when this returns."""
        self._outcomes[outcome["key"]] = outcome
        self.path.parent.mkdir(parents=True, exist_ok=True)
        line = ("\n" if self._broken else "") + json.dumps(outcome) + "\n"
        with self.path.open("ab", buffering=0) as file:
            file.write(line.encode())
            os.fsync(file.fileno())
        self._broken = False
