"""Ledger: what this party released, line by line, each chained to the line before by its hash.

A line names the step, the receiver, the kind, the number of bytes and their sha256, never their content. A line that
is changed, removed or moved breaks the chain, and `read` says where. Lines cut off the end do not: keep the last
line's hash (`cutlayer ledger verify` prints it) somewhere else to notice that.
"""

import errno
import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Required, TypedDict

from cutlayer.errors import RunError
from cutlayer.message import Message
from cutlayer.wire import encode

START = "0" * 64
TAIL_BYTES = 1 << 14  # read at first to find a file's last line


class LedgerLine(TypedDict, total=False):
    """What a line says: about a message, or that the ledger was opened, of which run and under which defences."""

    chain: Required[str]
    opened: bool
    run: str
    defences: list[str]
    step: int
    phase: str
    to: str
    kind: str
    bytes: int
    sha256: str


def chained(before: str, facts: Mapping[str, object]) -> str:
    """The hash of a line, given the one before."""
    return hashlib.sha256((before + json.dumps(facts, sort_keys=True)).encode()).hexdigest()


class Ledger:
    """Appends to a ledger file. A line that a crash cut short is removed when the file is opened again."""

    def __init__(self, path: Path, *, run: str, defences: Sequence[str]) -> None:
        self.path, self.run, self.defences = path, run, list(defences)
        path.parent.mkdir(parents=True, exist_ok=True)
        self._last = _trim(path)
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._size = os.fstat(self._file).st_size
        self._facts = {"run": self.run, "defences": self.defences}
        self._append({"opened": True, **self._facts})

    def write(self, message: Message) -> None:
        """Write down a message that is about to leave."""
        encoded = encode(message.payload.detach().cpu(), message.encoding).contiguous()
        self._append(
            {
                "step": message.batch.step,
                "phase": message.batch.phase.value,
                "to": message.receiver,
                "kind": message.kind.value,
                "bytes": message.nbytes,
                "sha256": hashlib.sha256(encoded.numpy().data).hexdigest(),
            }
        )

    def _append(self, facts: Mapping[str, object]) -> None:
        chain = chained(self._last, facts)
        line = (json.dumps({**facts, "chain": chain}) + "\n").encode()
        try:
            written = os.write(self._file, line)
            if written < len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
        except OSError:
            os.ftruncate(self._file, self._size)  # a line is whole or not there
            raise
        self._last, self._size = chain, self._size + len(line)

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


def read(path: Path) -> Iterator[LedgerLine]:
    """The lines of a ledger, checked one by one; raises where the chain is broken."""
    before = START
    with path.open("rb") as file:
        for number, text in enumerate(file, start=1):
            try:
                line: LedgerLine = json.loads(text)
                chain = line["chain"]
                facts = {key: value for key, value in line.items() if key != "chain"}
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
                raise RunError(
                    f"Line {number} of {path} is not a ledger's: the file was damaged or changed."
                ) from error
            if chained(before, facts) != chain:
                raise RunError(f"The chain of {path} breaks at line {number}: a line was changed, removed or moved.")
            before = chain
            yield line


def only_aligned(path: Path) -> bool:
    """Whether nothing but messages of alignments left; a line that cannot be read counts as something else."""
    if not path.exists():
        return True
    with path.open("rb") as file:
        return all(b'"opened": true' in line or b'"phase": "align"' in line for line in file)


def _trim(path: Path) -> str:
    """Remove a last line that is not whole; the hash of the last line that is."""
    if not path.exists():
        return START
    with path.open("r+b") as file:
        size = file.seek(0, os.SEEK_END)
        tail = b""
        while size - len(tail) > 0 and tail.count(b"\n") < 2:
            start = max(0, size - 2 * len(tail) - TAIL_BYTES)
            file.seek(start)
            tail = file.read(size - start)
        whole = tail[: tail.rfind(b"\n") + 1]
        if len(whole) < len(tail):
            file.truncate(size - len(tail) + len(whole))
    if not whole:
        return START
    try:
        return str(json.loads(whole.splitlines()[-1])["chain"])
    except (ValueError, KeyError, TypeError) as error:
        raise RunError(f"The last line of {path} is not a ledger's: the file was damaged or changed.") from error
