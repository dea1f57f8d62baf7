"""Transcript: what crossed the cut, in order; kept on disk, read through memory maps, bytes counted.

One channel holds the messages of one sender, receiver, kind and phase. Its payloads lie one
after another in a raw file, so reading a whole epoch is one memory map and no copy.
"""

import json
import shutil
import tempfile
import weakref
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from math import inf
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cutlayer._validate import one_of
from cutlayer.errors import RunError
from cutlayer.files import replacing, write_text
from cutlayer.message import Batch, Kind, Message, Phase

DTYPES = {"float32": np.float32, "float64": np.float64, "int64": np.int64, "uint8": np.uint8}
ENTRY = np.dtype(
    [("epoch", "<i4"), ("step", "<i8"), ("rows", "<i8"), ("count", "<i4"), ("start", "<i8"), ("length", "<i4")]
)
LAST = -1
BUFFER = 1 << 20  # bytes written at a time


class Policy(Enum):
    """Which training messages to keep."""

    NONE = "none"
    LAST = "last"  # epoch
    ENDS = "ends"  # the first and the last epoch
    ALL = "all"
    STEPS = "steps"  # by number


@dataclass(frozen=True)
class Keep:
    """Which training messages to keep. Those of a prediction are kept where it is looked at (Run.view)."""

    policy: Policy = Policy.NONE
    steps: frozenset[int] = frozenset()

    @classmethod
    def parse(cls, text: str) -> "Keep":
        """Read none, last, ends (first and last), all, or step numbers 0,10,20."""
        if text and all(part.strip().isdigit() for part in text.split(",")):
            return cls(Policy.STEPS, frozenset(int(part) for part in text.split(",")))
        one_of("keep policy", text, [policy.value for policy in Policy])
        return cls(Policy(text))

    def wants(self, step: int, epoch: int, is_last: bool) -> bool:
        """Whether to keep the messages of a training step."""
        if self.policy is Policy.STEPS:
            return step in self.steps
        ends = is_last or epoch == 0
        return {Policy.NONE: False, Policy.LAST: is_last, Policy.ENDS: ends, Policy.ALL: True}[self.policy]

    def __str__(self) -> str:
        return ",".join(map(str, sorted(self.steps))) if self.policy is Policy.STEPS else self.policy.value


Address = tuple[str, str, Kind, Phase]  # sender, receiver, kind, phase
Entry = tuple[int, int, int, int, int, int]  # the fields of ENTRY


class Scratch:
    """A temporary folder that lives as long as a transcript or one of its channels does."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="cutlayer-"))
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


class ChannelRecord(TypedDict):
    """A channel in the index of a transcript."""

    address: tuple[str, str, str, str]  # sender, receiver, kind, phase
    file: str
    tail: list[int]
    dtype: str


class Channel:
    """All kept messages from one sender to one receiver, of one kind and phase."""

    def __init__(
        self, address: Address, stem: Path, scratch: Scratch | None = None, entries: Iterable[Entry] = ()
    ) -> None:
        self._scratch, self._stem = scratch, stem
        self.sender, self.receiver, self.kind, self.phase = address
        self._tail: tuple[int, ...] = ()
        self._dtype = "float32"
        self._take(entries)
        self._files: tuple[Any, Any] | None = None  # opened by the first append

    def append(self, epoch: int, message: Message) -> None:
        """Write a message at the end."""
        payload = message.payload.contiguous().cpu().numpy()
        rows = message.batch.rows.cpu().numpy()
        if self._files is None:
            rows_path, payload_path = self._stem.with_suffix(".rows"), self._stem.with_suffix(".bin")
            self._files = (rows_path.open("ab", BUFFER), payload_path.open("ab", BUFFER))
            self._tail, self._dtype = payload.shape[1:], str(payload.dtype)
        self._files[0].write(rows.data)
        self._files[1].write(payload.data)
        self._entries.append((epoch, message.batch.step, self._rows, len(rows), self._payload, len(payload)))
        self._rows += len(rows)
        self._payload += len(payload)

    def flush(self) -> None:
        """Hand what was written to the operating system, so that maps see it."""
        for file in self._files or ():
            file.flush()

    def save_entries(self) -> None:
        """Write the list of messages, atomically."""
        self.flush()
        with replacing(self._stem.with_suffix(".npy")) as temporary, temporary.open("wb") as file:
            np.save(file, self.entries, allow_pickle=False)

    def close(self) -> None:
        """Flush and close the files."""
        for file in self._files or ():
            file.close()
        self._files = None

    def __del__(self) -> None:
        with suppress(OSError):  # the disk is full: writing to it has raised already
            self.close()

    def first_step(self, epoch: int) -> float:
        """The first kept step of an epoch or a later one; infinity if there is none."""
        return next((e[1] for e in self._entries if e[0] >= epoch), inf)

    def truncate(self, step: float) -> None:
        """Forget messages of `step` and later (resuming from a checkpoint)."""
        self.close()
        self._take(entry for entry in self._entries if entry[1] < step)
        for path, size in self._sizes().items():
            if path.exists():
                with path.open("r+b") as file:
                    file.truncate(size)

    def _take(self, entries: Iterable[Entry]) -> None:
        self._entries = list(entries)
        _, _, first, count, start, length = self._entries[-1] if self._entries else (0, 0, 0, 0, 0, 0)
        self._rows, self._payload = first + count, start + length

    def _sizes(self) -> dict[Path, int]:
        width = int(np.prod(self._tail)) * np.dtype(DTYPES[self._dtype]).itemsize
        sizes = {".rows": self._rows * 8, ".bin": self._payload * width}
        return {self._stem.with_suffix(suffix): size for suffix, size in sizes.items()}

    @property
    def entries(self) -> NDArray[np.void]:
        """One record per message: epoch, step, first row and count, first payload row and length."""
        return np.array(self._entries, dtype=ENTRY)

    def __len__(self) -> int:
        return len(self._entries)

    def _map(self, suffix: str, dtype: Any, shape: tuple[int, ...]) -> Tensor:
        if not shape[0]:
            return torch.from_numpy(np.zeros(shape, dtype))
        self.flush()  # "c" below: copy on write, so that an attack cannot change the record
        return torch.from_numpy(np.memmap(self._stem.with_suffix(suffix), dtype, "c", shape=shape))

    def read(self, epoch: int | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Row numbers, payload rows and steps (one per payload row) of an epoch (LAST for the last), or of all."""
        entries = self.entries
        rows = self._map(".rows", np.int64, (self._rows,))
        payload = self._map(".bin", DTYPES[self._dtype], (self._payload, *self._tail))
        steps = torch.from_numpy(np.repeat(entries["step"].copy(), entries["count"]))
        if epoch is None or not len(entries):
            return rows, payload, steps
        chosen = entries["epoch"] == (entries["epoch"].max() if epoch == LAST else epoch)
        keep = torch.from_numpy(np.repeat(chosen, entries["count"]))
        if keep.all():
            return rows, payload, steps
        return rows[keep], payload[keep], steps[keep]

    def messages(self) -> Iterator[Message]:
        """The messages one by one."""
        rows = self._map(".rows", np.int64, (self._rows,))
        payload = self._map(".bin", DTYPES[self._dtype], (self._payload, *self._tail))
        for _, step, first, count, start, length in self._entries:
            batch = Batch(step, self.phase, rows[first : first + count])
            yield Message(batch, self.sender, self.receiver, self.kind, payload[start : start + length])

    def to_json(self) -> ChannelRecord:
        """Address and layout, for the index file."""
        address = (self.sender, self.receiver, self.kind.value, self.phase.value)
        return {"address": address, "file": self._stem.name, "tail": list(self._tail), "dtype": self._dtype}

    @classmethod
    def open(cls, folder: Path, record: ChannelRecord) -> "Channel":
        """Open a saved channel; its layout is checked against the files' sizes before they are mapped."""
        sender, receiver, kind, phase = record["address"]
        stem = folder / Path(record["file"]).name
        entries = np.load(stem.with_suffix(".npy"), allow_pickle=False).astype(ENTRY, casting="no").tolist()
        channel = cls((sender, receiver, Kind(kind), Phase(phase)), stem, entries=entries)
        channel._tail, channel._dtype = tuple(int(n) for n in record["tail"]), record["dtype"]
        for path, size in channel._sizes().items():
            if size and (not path.exists() or path.stat().st_size < size):
                raise RunError(f"Expected {size} bytes in {path.name}; the transcript is damaged: train again.")
        return channel


class Transcript:
    """Counts every byte that crosses and keeps the messages that the policy asks for."""

    def __init__(self, keep: Keep = Keep(), folder: Path | None = None) -> None:  # noqa: B008 (a frozen value)
        self.keep = keep
        self.channels: dict[Address, Channel] = {}
        self.bytes: dict[tuple[str, str, Phase], int] = defaultdict(int)
        self._epoch = 0
        self._is_last = False
        self._scratch = None if folder else Scratch()
        self.folder = self._scratch.path if self._scratch else folder or Path()

    def begin_epoch(self, epoch: int, is_last: bool) -> None:
        """Say where training is. Under early stopping any epoch may be the last, so each replaces the one before."""
        if is_last and self.keep.policy in (Policy.LAST, Policy.ENDS):
            for channel in self.channels.values():
                channel.truncate(channel.first_step(epoch=1 if self.keep.policy is Policy.ENDS else 0))
        self._epoch, self._is_last = epoch, is_last

    def record(self, message: Message) -> None:
        """Count a message, and keep it if the policy says so."""
        batch = message.batch
        self.bytes[message.sender, message.receiver, batch.phase] += message.nbytes
        if batch.phase is Phase.TRAIN and self.keep.wants(batch.step, self._epoch, self._is_last):
            self.write(message)

    def write(self, message: Message) -> None:
        """Keep a message."""
        address = (message.sender, message.receiver, message.kind, message.batch.phase)
        if address not in self.channels:
            self.folder.mkdir(parents=True, exist_ok=True)
            self.channels[address] = Channel(address, self.folder / f"channel{len(self.channels)}", self._scratch)
        self.channels[address].append(self._epoch, message)

    def traffic(self) -> dict[str, dict[str, int]]:
        """Bytes sent and received per party, training and prediction together."""
        totals: dict[str, dict[str, int]] = defaultdict(lambda: {"sent": 0, "received": 0})
        for (sender, receiver, _), count in self.bytes.items():
            totals[sender]["sent"] += count
            totals[receiver]["received"] += count
        return {name: totals[name] for name in sorted(totals)}

    def save(self) -> None:
        """Write the index beside the channels, atomically."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for channel in self.channels.values():
            channel.save_entries()
        index = {
            "keep": str(self.keep),
            "channels": [channel.to_json() for channel in self.channels.values()],
            "bytes": self.counts(),
        }
        write_text(self.folder / "index.json", json.dumps(index))

    def counts(self) -> list[tuple[str, str, str, int]]:
        """Bytes by sender, receiver and phase, as JSON values."""
        return [(sender, receiver, phase.value, n) for (sender, receiver, phase), n in self.bytes.items()]

    def recount(self, counts: Iterable[tuple[str, str, str, int]]) -> None:
        """Go back to saved counts."""
        self.bytes = defaultdict(int, {(s, r, Phase(phase)): n for s, r, phase, n in counts})

    @classmethod
    def open(cls, folder: Path) -> "Transcript":
        """Open a saved transcript; a folder without one gives an empty transcript."""
        path = folder / "index.json"
        if not path.exists():
            return cls(Keep(), folder)
        try:
            index = json.loads(path.read_text())
            transcript = cls(Keep.parse(index["keep"]), folder)
            for record in index["channels"]:
                channel = Channel.open(folder, record)
                transcript.channels[channel.sender, channel.receiver, channel.kind, channel.phase] = channel
            transcript.recount(index["bytes"])
        except (KeyError, ValueError, TypeError, OSError) as error:
            raise RunError(
                f"Could not read the transcript in {folder} ({error}); it is damaged: train again."
            ) from error
        return transcript
