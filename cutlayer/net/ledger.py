"""Ledger: what this party released, line by line, each line chained to the one before by its hash.

A line says when, in which step, to whom, of which kind, how many bytes, their sha256 and which defences were active;
never what they were. Changing, removing or reordering a line breaks the chain, and `verify` says where. Cutting off
the end does not: keep the last line's hash (`cutlayer ledger verify` prints it) somewhere else to notice that.
"""

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from cutlayer.errors import RunError
from cutlayer.message import Message
from cutlayer.wire import encode

START = "0" * 64


def chained(before: str, facts: dict[str, Any]) -> str:
    """The hash of a line, given the one before."""
    return hashlib.sha256((before + json.dumps(facts, sort_keys=True)).encode()).hexdigest()


class Ledger:
    """Appends to a ledger file. A line that a crash cut short is removed when the file is opened again."""

    def __init__(self, path: Path, *, run: str, defences: Sequence[str]) -> None:
        self.path, self.run, self.defences = path, run, list(defences)
        path.parent.mkdir(parents=True, exist_ok=True)
        self._last = _trim(path)
        self._file = os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "a", buffering=1)
        self._facts = {"run": self.run, "defences": self.defences}
        self._append({"opened": True, **self._facts})

    def write(self, message: Message) -> None:
        """Note a message that is about to leave."""
        crossed = encode(message.payload.detach().cpu(), message.encoding).contiguous()
        self._append(
            {
                "step": message.batch.step,
                "phase": message.batch.phase.value,
                "to": message.receiver,
                "kind": message.kind.value,
                "bytes": message.nbytes,
                "sha256": hashlib.sha256(crossed.numpy().data).hexdigest(),
            }
        )

    def _append(self, facts: dict[str, Any]) -> None:
        self._last = chained(self._last, facts)
        self._file.write(json.dumps({**facts, "chain": self._last}) + "\n")

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def read(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of a ledger, checked one by one; raises where the chain is broken."""
    before = START
    with path.open() as file:
        for number, line in enumerate(file, start=1):
            try:
                facts: dict[str, Any] = json.loads(line)
                said = facts.pop("chain")
            except (ValueError, KeyError, AttributeError) as error:
                raise RunError(
                    f"Line {number} of {path} is not a ledger's: the file was damaged or changed."
                ) from error
            if chained(before, facts) != said:
                raise RunError(f"The chain of {path} breaks at line {number}: a line was changed, removed or moved.")
            before = said
            yield {**facts, "chain": said}


def _trim(path: Path) -> str:
    """Remove a last line that is not whole; the hash of the last line that is."""
    if not path.exists():
        return START
    data = path.read_bytes()
    whole = data[: data.rfind(b"\n") + 1]
    if len(whole) < len(data):
        with path.open("r+b") as file:
            file.truncate(len(whole))
    if not whole:
        return START
    try:
        return str(json.loads(whole.splitlines()[-1])["chain"])
    except (ValueError, KeyError) as error:
        raise RunError(f"The last line of {path} is not a ledger's: the file was damaged or changed.") from error
