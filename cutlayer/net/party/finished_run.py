"""Finished run: a party as it was when training ended, read back from its folder for joint prediction.

`save_for_prediction` writes what the models alone do not say: how columns are encoded, the shapes of embeddings, the
target's scale. It stays with the party, as the models do.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from cutlayer import checkpoint
from cutlayer.cut import Shape
from cutlayer.data.tables.fitted import FittedTable
from cutlayer.data.task import Features
from cutlayer.errors import RunError
from cutlayer.net.party.meeting import StartingPoint
from cutlayer.net.party.party_file import PartyFile
from cutlayer.net.party.run_folder import RunFolder
from cutlayer.net.peers.differences import differences
from cutlayer.party import FeatureParty, LabelParty
from cutlayer.plan import Plan, feature_party, label_party, part_of, target_scale
from cutlayer.rng import Stream, secret_seed

FACTS, FITTED = "serving.json", "fitted.json"


def save_for_prediction(folder: RunFolder, start: StartingPoint) -> None:
    """Write what prediction will need, before the run counts as finished."""
    data = start.data
    mean, spread = 0.0, 1.0
    if data.labels is not None and data.goal is not None:
        mean, spread = target_scale(data.labels, data.goal, data.train)
    facts = {
        "trained": start.training,
        "classes": start.classes,
        "rows": 0 if data.labels is None else len(data.labels),
        "shapes": {party: list(shape) for party, shape in start.shapes.items()},
        "mean": mean,
        "spread": spread,
    }
    folder.write(folder.path / FACTS, json.dumps(facts, indent=2).encode())
    if data.fitted is not None:
        folder.write(folder.path / FITTED, json.dumps(data.fitted.to_json()).encode())


@dataclass(frozen=True)
class FinishedRun:
    """What a party's folder says of its finished run."""

    file: PartyFile
    folder: RunFolder
    plan: Plan
    models: Mapping[str, str]  # sha256 by party and part
    names: tuple[str, ...]  # of classes, at the label party
    training: str  # the same at all parties that trained together
    classes: int
    shapes: Mapping[str, Shape]
    mean: float
    spread: float
    rows: int  # of the label party's table in training, at the label party; a module may remember something of each
    fitted: FittedTable | None

    @classmethod
    def read(cls, file: PartyFile, device: str = "cpu") -> "FinishedRun":
        """Read a finished run, and refuse one that was trained under another manifest."""
        path = file.folder
        if not (path / "run.json").exists():
            raise RunError(f"Expected a finished run in {path}, found none: train first, with `cutlayer party`.")
        record, facts = _read(path / "run.json"), _read(path / FACTS)
        ours = json.loads(json.dumps(file.run.to_json()))
        if lines := differences(record.get("manifest", {}), ours, file.path.name):
            raise RunError(f"The run in {path} was trained under another manifest: {'; '.join(lines)}.")
        folder = RunFolder(path)
        seed = folder.private_seed() if file.party.seed is None else file.party.seed
        fitted = FittedTable.from_json(_read(path / FITTED)) if (path / FITTED).exists() else None
        try:
            return cls(
                file,
                folder,
                file.run.plan(private_seed=seed, device=device),
                dict(record["models"]),
                tuple(record["classes"]),
                str(facts["trained"]),
                int(facts["classes"]),
                {party: tuple(shape) for party, shape in facts["shapes"].items()},
                float(facts["mean"]),
                float(facts["spread"]),
                int(facts.get("rows", 2)),
                fitted,
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise RunError(f"Expected {path / FACTS} as training wrote it, got another: train again.") from error

    @property
    def name(self) -> str:
        """Whose run this is."""
        return self.file.party.name

    def party(self, features: Features | None) -> FeatureParty | LabelParty:
        """Make the party again, with the weights that it trained.

        Its private seed is that of training, for what the models were trained with depends on it (secure-sum's W_mask,
        answers of column-noise). What it draws from now on is fresh: noise that repeats could be taken off.
        """
        facts = self.file.run.facts(self.classes)
        part = None if features is None else part_of(self.name, features, facts, self.plan)
        if part is not None and part.shape != self.shapes.get(self.name):
            raise RunError(f"Expected embeddings of shape {self.shapes.get(self.name)}, got {part.shape}: train again.")
        party: FeatureParty | LabelParty
        if self.file.is_label_party:
            kind = torch.int64 if self.classes else torch.float32
            labels = torch.zeros(self.rows, dtype=kind)  # prediction needs only how many there are
            party = label_party(labels, part, self.shapes, facts, self.plan)
        else:
            assert part is not None
            party = feature_party(self.name, part, facts, self.plan)
        for name, module in party.modules.items():
            self._load(name, module)
        party.stream = Stream(secret_seed(), self.name, "serving", device=self.plan.device)
        return party

    def _load(self, part: str, module: torch.nn.Module) -> None:
        path = self.folder.path / "models" / f"{self.name}.{part}.safetensors"
        try:
            module.load_state_dict(load_file(path))
        except FileNotFoundError as error:
            raise RunError(f"Expected the model {path.name} in {path.parent}, found none: restore it.") from error
        except (RuntimeError, ValueError, SafetensorError) as error:
            raise RunError(f"Expected a model as training wrote it in {path}, got another: restore it.") from error
        if checkpoint.digest(module) != self.models.get(f"{self.name}.{part}"):
            raise RunError(f"Expected {path} to have the sha256 of run.json; the file changed since the run.")


def _read(path: Path) -> dict[str, Any]:
    try:
        facts = json.loads(path.read_text())
    except FileNotFoundError as error:
        raise RunError(f"Expected {path}, found none: this run was not made for prediction, train again.") from error
    except ValueError as error:
        raise RunError(f"Expected JSON in {path}, got something else: restore the file, or train again.") from error
    if not isinstance(facts, dict):
        raise RunError(f"Expected named facts in {path}, got something else: restore the file, or train again.")
    return facts
