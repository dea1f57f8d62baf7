"""Run folder: what one party keeps on disk. The newest few checkpoints, its alignment, its models, small facts.

A checkpoint is one file, written under another name, flushed to disk and renamed. One that does not end in its own
sha256 is skipped, so a damaged file costs the steps since the one before it and no more.
"""

import fcntl
import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypedDict

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from cutlayer.errors import ConfigError, RunError
from cutlayer.files import write_bytes
from cutlayer.json_types import Json
from cutlayer.rng import secret_seed

KEPT = 3  # checkpoints
CHECKPOINT = re.compile(r"step-(\d+)\.safetensors")
BROKEN = (OSError, ValueError, KeyError, SafetensorError)  # what reading a damaged file can raise


class CheckpointFacts(TypedDict):
    """Where training stood when a checkpoint was written."""

    epoch: int
    done: int  # batches of the epoch
    step: int
    history: list[dict[str, float]]


class RunFolder:
    """Reads and writes one party's folder."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(parents=True, exist_ok=True)
        path.chmod(0o700)
        self.checkpoints = path / "checkpoints"
        self.checkpoints.mkdir(exist_ok=True)
        self._whole: dict[int, bool] = {}  # by step, for checkpoints that were read or written

    def save(self, step: int, tensors: Mapping[str, Tensor], facts: CheckpointFacts) -> None:
        """Write a checkpoint, then remove the oldest."""
        self.write(self._checkpoint(step), _with_digest(save(dict(tensors), {"facts": json.dumps(facts)})))
        self._whole[step] = True
        for old in sorted(self._listed())[:-KEPT]:
            self._checkpoint(old).unlink(missing_ok=True)
            self._whole.pop(old, None)

    def load(self, step: int) -> tuple[dict[str, Tensor], CheckpointFacts]:
        """Read a checkpoint; raise if it is damaged."""
        try:
            return _read(self._checkpoint(step))
        except BROKEN as error:
            raise RunError(f"The checkpoint of step {step} in {self.path} is damaged ({error}).") from error

    def steps(self) -> list[int]:
        """Steps with a whole checkpoint; a damaged one is left out."""
        for step in self._listed():
            if step not in self._whole:
                try:
                    self.load(step)
                    self._whole[step] = True
                except RunError:
                    self._whole[step] = False
        return sorted(step for step, whole in self._whole.items() if whole)

    @property
    def is_blank(self) -> bool:
        """Whether nothing is kept here that took work: no alignment, checkpoint or model, whole or damaged."""
        results = ("alignment.safetensors", "models", "serving.json", "run.json", "pending.json", "farewell.json")
        return not self._listed() and not any((self.path / name).exists() for name in results)

    def forget(self, after: int = -1) -> None:
        """Remove checkpoints of later steps: the parties went back beyond them."""
        for step in self._listed():
            if step > after:
                self._checkpoint(step).unlink(missing_ok=True)
                self._whole.pop(step, None)

    def keep_alignment(self, name: str, rows: Tensor, ids: str) -> None:
        """Keep which of this party's rows all parties have, in their common order, and a hash of all its ids."""
        data = save({"rows": rows}, {"facts": json.dumps({"name": name, "ids": ids})})
        self.write(self.path / "alignment.safetensors", _with_digest(data))

    def forget_alignment(self) -> None:
        """Remove an alignment that cannot be used."""
        (self.path / "alignment.safetensors").unlink(missing_ok=True)

    def alignment(self, ids: str) -> str | None:
        """Name of the alignment kept here, if it is whole and of these ids."""
        try:
            _, facts = _read(self.path / "alignment.safetensors")
        except BROKEN:
            return None
        return str(facts["name"]) if facts.get("ids") == ids else None

    def rows(self) -> Tensor:
        """The rows that all parties have; none where a dataset needs no alignment."""
        path = self.path / "alignment.safetensors"
        return _read(path)[0]["rows"] if path.exists() else torch.empty(0, dtype=torch.int64)

    def write_json(self, name: str, facts: Json) -> None:
        """Write a small file of facts."""
        self.write(self.path / f"{name}.json", json.dumps(facts, indent=2).encode())

    def read_json(self, name: str) -> Json:
        """Read a small file of facts; None if there is none."""
        path = self.path / f"{name}.json"
        try:
            content: Json = json.loads(path.read_text()) if path.exists() else None
        except ValueError as error:
            raise RunError(f"The file {path} is damaged ({error}).") from error
        return content

    def read_facts(self, name: str) -> dict[str, Json] | None:
        """Read a small file of facts by name; None if there is none."""
        facts = self.read_json(name)
        if facts is not None and not isinstance(facts, dict):
            raise RunError(f"The file {self.path / f'{name}.json'} is damaged (it holds no named facts).")
        return facts

    def remove(self, name: str) -> None:
        """Remove a small file of facts."""
        (self.path / f"{name}.json").unlink(missing_ok=True)

    def private_seed(self) -> int:
        """The seed of this party's own draws: from the operating system, and as long-lived as the folder."""
        path = self.path / "private-seed"
        if not path.exists():
            self.write(path, str(secret_seed()).encode())
        return int(path.read_text())

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes out of the folder."""
        descriptor = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise ConfigError(
                    f"Another process is using {self.path}; stop it, or choose another folder."
                ) from error
            yield
        finally:
            os.close(descriptor)

    def write(self, path: Path, data: bytes) -> None:
        """Write a file that only this user can read, whole or not at all."""
        write_bytes(path, data, private=True)

    def _listed(self) -> list[int]:
        return [int(match[1]) for path in self.checkpoints.iterdir() if (match := CHECKPOINT.fullmatch(path.name))]

    def _checkpoint(self, step: int) -> Path:
        return self.checkpoints / f"step-{step}.safetensors"


def _with_digest(data: bytes) -> bytes:
    return data + hashlib.sha256(data).digest()


def _read(path: Path) -> tuple[dict[str, Tensor], Any]:
    """Tensors and facts of a file that ends in its own sha256."""
    data = path.read_bytes()
    body, digest = data[:-32], data[-32:]
    if hashlib.sha256(body).digest() != digest:
        raise ValueError("its sha256 is another")
    header = json.loads(body[8 : 8 + int.from_bytes(body[:8], "little")])
    return load(body), json.loads(header["__metadata__"]["facts"])
