"""Store: a party's own folder. Checkpoints by step, the newest few of them, each with its sha256.

A checkpoint is one file, written under another name, flushed to disk and renamed. One that does not have the sha256
at its end is skipped, so a torn or damaged file costs the steps since the one before it and no more.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from cutlayer.errors import RunError
from cutlayer.files import write_bytes
from cutlayer.rng import secret_seed

KEPT = 3  # checkpoints
NAME = re.compile(r"step-(\d+)\.safetensors")
BROKEN = (OSError, ValueError, KeyError, SafetensorError)  # what reading a damaged file can raise


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
            return _read(self._path(step))
        except BROKEN as error:
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

    @property
    def is_blank(self) -> bool:
        """Whether nothing is kept here that took work: no alignment, checkpoint or model, whole or damaged."""
        made = ("alignment.safetensors", "models", "serving.json", "run.json", "pending.json", "farewell.json")
        return not self._listed() and not any((self.folder / name).exists() for name in made)

    def forget(self, after: int = -1) -> None:
        """Remove checkpoints of later steps: the parties went back beyond them."""
        for step in self._listed():
            if step > after:
                self._path(step).unlink(missing_ok=True)
                self._steps.pop(step, None)

    def keep_alignment(self, name: str, rows: Tensor, ids: str) -> None:
        """Keep which of this party's rows are common to all, in their common order, and of which ids (a hash)."""
        data = save({"rows": rows}, {"facts": json.dumps({"name": name, "ids": ids})})
        self.write(self.folder / "alignment.safetensors", data + hashlib.sha256(data).digest())

    def forget_alignment(self) -> None:
        """Remove an alignment that is of no use."""
        (self.folder / "alignment.safetensors").unlink(missing_ok=True)

    def alignment(self, ids: str) -> str | None:
        """Name of the alignment that is kept, if a whole one is and it is of these ids."""
        try:
            _, facts = _read(self.folder / "alignment.safetensors")
        except BROKEN:
            return None
        return str(facts["name"]) if facts.get("ids") == ids else None

    def rows(self) -> Tensor:
        """The rows that are common to all; none where a dataset needs no alignment."""
        path = self.folder / "alignment.safetensors"
        return _read(path)[0]["rows"] if path.exists() else torch.empty(0, dtype=torch.int64)

    def keep_json(self, name: str, facts: Any) -> None:
        """Write a small file of facts."""
        self.write(self.folder / f"{name}.json", json.dumps(facts, indent=2).encode())

    def json(self, name: str) -> Any:
        """Read a small file of facts; None if there is none."""
        path = self.folder / f"{name}.json"
        try:
            return json.loads(path.read_text()) if path.exists() else None
        except ValueError as error:
            raise RunError(f"The file {path} is damaged ({error}).") from error

    def remove(self, name: str) -> None:
        """Remove a small file of facts."""
        (self.folder / f"{name}.json").unlink(missing_ok=True)

    def private_seed(self) -> int:
        """The seed of this party's own draws, from the operating system, kept for as long as the folder is."""
        path = self.folder / "private-seed"
        if not path.exists():
            self.write(path, str(secret_seed()).encode())
        return int(path.read_text())

    def write(self, path: Path, data: bytes) -> None:
        """Write a file that only this user can read, whole or not at all."""
        write_bytes(path, data, private=True)

    def _listed(self) -> list[int]:
        return [int(found[1]) for path in self.checkpoints.iterdir() if (found := NAME.fullmatch(path.name))]

    def _path(self, step: int) -> Path:
        return self.checkpoints / f"step-{step}.safetensors"


def _read(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors and facts of a file that ends in its own sha256."""
    data = path.read_bytes()
    body, said = data[:-32], data[-32:]
    if hashlib.sha256(body).digest() != said:
        raise ValueError("its sha256 is another")
    header = json.loads(body[8 : 8 + int.from_bytes(body[:8], "little")])
    return load(body), json.loads(header["__metadata__"]["facts"])
