"""Store: a party's own folder. Checkpoints by step, the newest few of them, each with its sha256.

A checkpoint is one file, written under another name, flushed to disk and renamed. One that does not have the sha256
in its name's list is skipped, so a torn or damaged file costs the steps since the one before it and no more.
"""

import hashlib
import json
import os
import re
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from cutlayer.errors import RunError

KEPT = 3  # checkpoints
NAME = re.compile(r"step-(\d+)\.safetensors")


class Store:
    """Reads and writes one party's folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o700)
        self.checkpoints = folder / "checkpoints"
        self.checkpoints.mkdir(exist_ok=True)
        self._steps: dict[int, bool] = {}

    def save(self, step: int, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
        """Write a checkpoint, then remove the oldest."""
        data = save(dict(tensors), {"facts": json.dumps(facts)})
        self.write(self.checkpoints / f"step-{step}.safetensors", data + hashlib.sha256(data).digest())
        self._steps[step] = True
        for old in sorted(self._listed())[:-KEPT]:
            self._path(old).unlink(missing_ok=True)
            self._steps.pop(old, None)

    def load(self, step: int) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Read a checkpoint, or say that it is damaged."""
        try:
            data = self._path(step).read_bytes()
            body, said = data[:-32], data[-32:]
            if hashlib.sha256(body).digest() != said:
                raise ValueError("its sha256 is another")
            size = int.from_bytes(body[:8], "little")
            header = json.loads(body[8 : 8 + size])
            return load(body), json.loads(header["__metadata__"]["facts"])
        except (OSError, ValueError, KeyError, SafetensorError) as error:
            raise RunError(f"The checkpoint of step {step} in {self.folder} is damaged ({error}).") from error

    def steps(self) -> list[int]:
        """Steps with a whole checkpoint; a damaged one is left out."""
        for step in self._listed():
            if step not in self._steps:
                try:
                    self.load(step)
                    self._steps[step] = True
                except RunError:
                    self._steps[step] = False
        return sorted(step for step, whole in self._steps.items() if whole)

    def forget(self, after: int = -1) -> None:
        """Remove checkpoints of later steps: the parties went back beyond them."""
        for step in self._listed():
            if step > after:
                self._path(step).unlink(missing_ok=True)
                self._steps.pop(step, None)

    def keep_alignment(self, name: str, rows: Tensor) -> None:
        """Keep which of this party's rows are common to all, in their common order."""
        self.write(self.folder / "alignment.safetensors", save({"rows": rows}, {"name": name}))

    def alignment(self) -> str | None:
        """Name of the alignment that is kept, if one is."""
        try:
            data = (self.folder / "alignment.safetensors").read_bytes()
            return str(json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])["__metadata__"]["name"])
        except (OSError, ValueError, KeyError):
            return None

    def rows(self) -> Tensor:
        """The rows that are common to all; none where a dataset needs no alignment."""
        path = self.folder / "alignment.safetensors"
        return load(path.read_bytes())["rows"] if path.exists() else torch.empty(0, dtype=torch.int64)

    def private_seed(self) -> int:
        """The seed of this party's own draws, from the operating system, kept for as long as the folder is."""
        path = self.folder / "private-seed"
        if not path.exists():
            self.write(path, str(secrets.randbits(255)).encode())
        return int(path.read_text())

    def write(self, path: Path, data: bytes) -> None:
        """Write a file that only this user can read, whole or not at all."""
        temporary = path.with_name(path.name + ".tmp")
        try:
            with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise

    def _listed(self) -> list[int]:
        return [int(found[1]) for path in self.checkpoints.iterdir() if (found := NAME.fullmatch(path.name))]

    def _path(self, step: int) -> Path:
        return self.checkpoints / f"step-{step}.safetensors"
