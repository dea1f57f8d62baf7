"""Checkpoints: everything that a party needs to go on as if nothing had happened, in safetensors.

A checkpoint is a folder. It is written under another name and renamed when whole, and the one
before is deleted only then, so that a reader finds a complete one at any moment.
"""

import hashlib
import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NotRequired, TypedDict

from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from cutlayer.errors import RunError
from cutlayer.json_types import Json
from cutlayer.party import Trainee


def digest(module: nn.Module) -> str:
    """sha256 over the names, types, shapes and bytes of a module's state."""
    total = hashlib.sha256()
    for name, tensor in sorted(module.state_dict().items()):
        total.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        total.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return total.hexdigest()


def state_of(party: Trainee) -> dict[str, Tensor]:
    """Models, optimiser and random stream as named tensors."""
    state = {
        f"model/{part}/{name}": tensor
        for part, module in party.modules.items()
        for name, tensor in module.state_dict().items()
    }
    if party.optimizer:
        for number, entry in party.optimizer.state_dict()["state"].items():
            state |= {f"optimizer/{number}/{key}": value for key, value in entry.items() if value is not None}
    state["stream"] = party.stream.state
    return {name: tensor.detach().cpu().contiguous().clone() for name, tensor in state.items()}


def restore(party: Trainee, state: Mapping[str, Tensor]) -> None:
    """Put a party back to where `state_of` found it."""
    for part, module in party.modules.items():
        prefix = f"model/{part}/"
        module.load_state_dict({k.removeprefix(prefix): v for k, v in state.items() if k.startswith(prefix)})
    if party.optimizer:
        entries: dict[int, dict[str, Tensor]] = {}
        for name, tensor in state.items():
            if name.startswith("optimizer/"):
                _, number, key = name.split("/", 2)
                entries.setdefault(int(number), {})[key] = tensor.clone()
        party.optimizer.load_state_dict({**party.optimizer.state_dict(), "state": entries})
    party.stream.state = state["stream"]


States = dict[str, dict[str, Tensor]]


class RunProgress(TypedDict):
    """How far a run is, and what it is of: it is resumed only with the same plan and task."""

    epoch: int  # to go on with
    step: int
    history: list[dict[str, float]]
    plan: Mapping[str, Json]
    task: NotRequired[Mapping[str, Json]]
    bytes: Sequence[tuple[str, str, str, int]]


def save(folder: Path, parties: Mapping[str, Trainee], progress: RunProgress, best: States) -> None:
    """Write a checkpoint of all parties (now, and in their best epoch so far) and replace the one before."""
    new, old, final = (folder / name for name in ("checkpoint.new", "checkpoint.old", "checkpoint"))
    shutil.rmtree(new, ignore_errors=True)
    try:
        new.mkdir(parents=True)
        for name, party in parties.items():
            save_file(state_of(party), new / f"{name}.safetensors")
        for name, state in best.items():
            save_file(state, new / f"{name}.best.safetensors")
        (new / "progress.json").write_text(json.dumps(progress))
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        raise
    shutil.rmtree(old, ignore_errors=True)
    if final.exists():
        final.rename(old)
    new.rename(final)
    shutil.rmtree(old, ignore_errors=True)


def load(folder: Path, parties: Mapping[str, Trainee]) -> tuple[RunProgress, States]:
    """Restore all parties from the newest complete checkpoint; return its progress and the best states."""
    for candidate in (folder / "checkpoint", folder / "checkpoint.old"):
        if (candidate / "progress.json").exists():
            best = {}
            for name, party in parties.items():
                restore(party, load_file(candidate / f"{name}.safetensors"))
                if (path := candidate / f"{name}.best.safetensors").exists():
                    best[name] = load_file(path)
            return json.loads((candidate / "progress.json").read_text()), best
    raise RunError(f"Expected a checkpoint in {folder} to resume from, found none; train without --resume.")
