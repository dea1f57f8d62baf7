"""Run: one training run, in memory or in a folder; `train` makes one, `Run.open` reads one back.

A run folder holds run.json (configuration, versions, metrics, bytes, sha256 of every model),
models/*.safetensors and transcript/. It is finished exactly when run.json exists; until then
it holds a checkpoint from which `train(..., resume=True)` goes on, bit for bit.
"""

import json
import platform
from collections.abc import Callable, Iterable
from copy import deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NotRequired, TypedDict, TypeGuard

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from cutlayer import checkpoint
from cutlayer.blocks.patience import since_best
from cutlayer.data.task import Features, Goal, Task
from cutlayer.errors import ConfigError, RunError
from cutlayer.files import replacing, write_text
from cutlayer.json_types import Json
from cutlayer.message import Phase
from cutlayer.metrics import utility
from cutlayer.metrics.divergence import divergence
from cutlayer.plan import Facts, Plan, assemble, course_of, facts_of, feature_party, part_of, roster_of, target_scale
from cutlayer.privacy import Privacy
from cutlayer.rng import Stream
from cutlayer.session import Session
from cutlayer.settings import settings_of
from cutlayer.transcript import Transcript
from cutlayer.version import __version__
from cutlayer.view import Manifest, Own, Start, View, view_of

RECORDED = {"task": dict, "plan": dict, "models": dict, "history": list, "seconds": float | int}


class RunRecord(TypedDict):
    """What run.json holds for whoever opens the run, beside the figures that a person reads."""

    task: dict[str, Json]  # the words that make it again
    plan: dict[str, Json]
    models: dict[str, str]  # sha256 by party and part
    history: list[dict[str, float]]
    seconds: float
    privacy: NotRequired[list[dict[str, Json]]]  # runs of earlier versions have none


@dataclass
class Run:
    """A trained federation: the task, the plan, the parties, what crossed, and how well it works."""

    task: Task
    plan: Plan
    session: Session
    transcript: Transcript
    metrics: dict[str, float] = field(default_factory=dict)
    history: list[dict[str, float]] = field(default_factory=list)
    seconds: float = 0.0
    privacy: tuple[Privacy, ...] = ()  # what defences guarantee, or why they do not

    @property
    def models(self) -> dict[str, nn.Module]:
        """Every trained model, by party and part."""
        return {
            f"{name}.{part}": module
            for name, party in sorted(self.session.parties.items())
            for part, module in party.modules.items()
        }

    def predict(self, rows: Tensor) -> Tensor:
        """Joint inference: logits, or numbers for regression."""
        mean, spread = target_scale(self.task.labels, self.task.goal, self.task.train)
        return self.session.predict(rows) * spread + mean

    def evaluate(self, rows: Tensor) -> dict[str, float]:
        """Score joint inference on some rows."""
        outputs, labels = self.predict(rows).numpy(), self.task.labels[rows].numpy()
        if self.task.goal is Goal.REGRESSION:
            return utility.regression(labels, outputs[:, 0])
        return utility.classification(labels, outputs)

    def manifest(self) -> Manifest:
        """What every party knows."""
        task, plan = self.task, self.plan
        return Manifest(
            task=task.name,
            roster=roster_of(task),
            classes=len(task.classes),
            train=task.train,
            test=task.test,
            recipe=plan.recipe,
            cut=deepcopy(plan.cut),
            seed=plan.seed,
            defences=deepcopy(plan.defences),
        )

    def view(self, parties: str | Iterable[str], *, predict: Tensor | None = None) -> View:
        """What some parties saw and hold; with the messages of a joint prediction over `predict` (the test rows).

        Copies of the parties predict, so the run stays as it is: viewing twice gives the same messages.
        """
        names = frozenset([parties] if isinstance(parties, str) else parties)
        if unknown := names - set(self.session.parties):
            known = ", ".join(sorted(self.session.parties))
            raise ConfigError(f"Unknown party {', '.join(sorted(unknown))}: expected one of {known}.")
        seen = Transcript()
        self.session.peek(self.task.test if predict is None else predict, seen.write)
        seen.channels |= self.transcript.channels
        return view_of(seen, names, self.manifest(), {name: self._own(name) for name in names})

    def _own(self, name: str) -> Own:
        def frozen(part: str) -> nn.Module | None:
            module = self.session.parties[name].modules.get(part)
            return None if module is None else deepcopy(module).eval()

        is_label = name == self.task.label_party
        features = self.task.features.get(name)
        return Own(
            features=None if features is None else features.values,
            bottom=frozen("bottom"),
            labels=self.task.labels if is_label else None,
            top=frozen("top") if is_label else None,
            start=None if is_label or features is None else _start(name, features, facts_of(self.task), self.plan),
        )

    def to_json(self) -> dict[str, Json]:
        """The content of run.json."""
        return {
            **self.metrics,
            "seconds": round(self.seconds, 3),
            "bytes": self.transcript.traffic(),
            "models": {name: checkpoint.digest(model) for name, model in self.models.items()},
            "task": dict(self.task.source) or {"name": self.task.name},
            "notes": [*self.task.notes, *self.notes()],
            "privacy": [one.to_json() for one in self.privacy],
            "plan": {**settings_of(self.plan).to_json(), "device": self.plan.device, "keep": str(self.transcript.keep)},
            "history": self.history,
            **self._flagged(),
            "versions": {
                "cutlayer": __version__,
                "torch": torch.__version__,
                "python": platform.python_version(),
            },
        }

    def notes(self) -> list[str]:
        """What a reader must know: warnings, and the privacy that was spent."""
        return [*self.warnings(), *(one.sentence() for one in self.privacy)]

    def warnings(self) -> list[str]:
        """That training diverged, and what else defences say about this run."""
        course = replace(course_of(facts_of(self.task), self.plan), epochs=len(self.history))
        warning = divergence([record["loss"] for record in self._kept()], len(self.task.classes))
        notes = [note for defence in self.plan.defences for note in defence.notes(course)]
        return [warning, *notes] if warning else notes

    def _kept(self) -> list[dict[str, float]]:
        """The epochs that made the models: with early stopping, those up to the best."""
        if self.plan.recipe.patience is None or not self.history:
            return self.history
        return self.history[: len(self.history) - since_best([record["valid_loss"] for record in self.history])]

    def _flagged(self) -> dict[str, dict[str, float]]:
        """If a defence flags rows: the share of training rows in the last epoch, and of test rows in prediction."""
        rows = {Phase.TRAIN: self.task.train, Phase.PREDICT: self.task.test}
        flags = {phase: odd for phase, odd in self.session.label_party.flags.items() if odd}
        shares = {p.value: float(torch.isin(rows[p], torch.cat(odd)).double().mean()) for p, odd in flags.items()}
        return {"flagged": shares} if shares else {}

    def save(self, folder: Path) -> None:
        """Write models, then run.json last: its presence says that the run is whole."""
        models = folder / "models"
        models.mkdir(parents=True, exist_ok=True)
        for name, model in self.models.items():
            state = {k: v.detach().cpu().contiguous().clone() for k, v in model.state_dict().items()}
            with replacing(models / f"{name}.safetensors") as temporary:
                save_file(state, temporary)
        self.transcript.save()
        write_text(folder / "run.json", json.dumps(self.to_json(), indent=2))

    @classmethod
    def open(cls, folder: Path | str, task: Task, plan: Plan) -> "Run":
        """Read a finished run back, given the task and plan that made it."""
        folder = Path(folder)
        record = read_record(folder)
        transcript = Transcript.open(folder / "transcript")
        run = cls(task, plan, assemble(task, plan, transcript.record), transcript)
        for name, model in run.models.items():
            path = folder / "models" / f"{name}.safetensors"
            if not path.exists():
                raise RunError(f"Expected the model {path.name} in {folder / 'models'}; the run is damaged.")
            try:
                model.load_state_dict(load_file(path))
            except (RuntimeError, ValueError, SafetensorError) as error:
                raise RunError(f"Could not load {path}: {str(error).splitlines()[0]}") from error
            if checkpoint.digest(model) != record["models"][name]:
                raise RunError(f"Expected {path} to have the sha256 of run.json; the file changed since the run.")
        run.metrics = {k: v for k, v in record.items() if isinstance(v, float) and k != "seconds"}
        run.history, run.seconds = record["history"], record["seconds"]
        run.privacy = tuple(Privacy.of_json(one) for one in record.get("privacy", []))
        for name, party in run.session.parties.items():  # or noise would repeat what training drew
            party.stream = Stream(plan.seed, name, "reopened", device=plan.device)
        return run


def _start(name: str, features: Features, facts: Facts, plan: Plan) -> Callable[[], Start]:
    """How a feature party began: it is made once more, from its own columns and seeds."""

    def start() -> Start:
        party = feature_party(name, part_of(name, features, facts, plan), facts, plan)
        return Start(party.bottom, party.features, party.stream)

    return start


def read_record(folder: Path) -> RunRecord:
    """Read run.json, or say what is wrong with the folder."""
    path = folder / "run.json"
    if not folder.is_dir():
        raise RunError(f"Expected a run folder at {folder}, found none; make one with `cutlayer train --out`.")
    if not path.exists():
        raise RunError(f"The run in {folder} is unfinished (no run.json); go on with `cutlayer train --resume`.")
    try:
        record: object = json.loads(path.read_text())
    except json.JSONDecodeError as error:
        raise RunError(f"Expected JSON in {path}, got something else: {error}.") from error
    if not _is_record(record):
        raise RunError(f"Expected {', '.join(RECORDED)} in {path}; it is damaged or not a run's.")
    return record


def _is_record(content: object) -> TypeGuard[RunRecord]:
    return isinstance(content, dict) and all(isinstance(content.get(key), kind) for key, kind in RECORDED.items())
