"""Plan: what is trained and how; from it and a Task, the parties of a Session are made."""

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import torch
from torch import Tensor, nn

from cutlayer._validate import at_least
from cutlayer.cut import Cut, Roster
from cutlayer.cuts.concat import Concat
from cutlayer.data.task import Features, Goal, Task
from cutlayer.defence import Defence, Role, Setting
from cutlayer.errors import ConfigError
from cutlayer.message import Message
from cutlayer.models.defaults import default_bottom, default_top
from cutlayer.party import FeatureParty, LabelParty
from cutlayer.recipe import Recipe
from cutlayer.rng import Stream, derive, generator
from cutlayer.session import Session
from cutlayer.spec import describe

#: A module per party, or a function from a party's features and the embedding's width to a module.
Bottoms = Mapping[str, nn.Module] | Callable[[Features, int], nn.Module]
#: A module, or a function from the joint width and the number of outputs to a module.
Top = nn.Module | Callable[[int, int], nn.Module]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Everything but the data."""

    bottoms: Bottoms = default_bottom
    top: Top = default_top
    width: int = 16  # of an embedding, where the bottom does not fix it
    cut: Cut = field(default_factory=Concat)
    defences: tuple[Defence, ...] = ()
    recipe: Recipe = field(default_factory=Recipe)
    seed: int = 0
    device: str = "cpu"

    def __post_init__(self) -> None:
        at_least("width", self.width, 1)


def roster_of(task: Task) -> Roster:
    """The public list of parties."""
    return Roster(task.label_party, tuple(task.features))


def assemble(task: Task, plan: Plan, record: Callable[[Message], None]) -> Session:
    """Make each party with its own columns, models, defences and random stream."""
    cut = plan.cut
    columns = {name: _features(task, plan, name) for name in task.features}
    bottoms = {name: _bottom(task, plan, name, columns[name]) for name in columns}
    shapes = [_shape(bottoms[name], features) for name, features in columns.items()]
    label, roster = task.label_party, roster_of(task)
    with Stream(plan.seed, label, "init", "top").scope():
        top = _made(plan.top, prod(cut.shape(shapes)), task.outputs)
        for defence in plan.defences:
            top = defence.model(top, _setting(task, plan, label, "top"))
    labels = training_labels(task)
    for defence in plan.defences:
        labels = defence.labels(labels, _setting(task, plan, label, "labels"))
    common: dict[str, Any] = {"roster": roster, "recipe": plan.recipe, "defences": plan.defences}

    def stream(name: str) -> Stream:
        return Stream(plan.seed, name, device=plan.device)

    return Session(
        LabelParty(
            label,
            labels.to(plan.device),
            top.to(plan.device),
            cut=deepcopy(cut),
            stream=stream(label),
            setting=_setting(task, plan, label, ""),
            features=columns[label].values.to(plan.device) if label in bottoms else None,
            bottom=bottoms[label].to(plan.device) if label in bottoms else None,
            **common,
        ),
        {
            name: FeatureParty(
                name,
                columns[name].values.to(plan.device),
                bottoms[name].to(plan.device),
                cut=deepcopy(cut),
                stream=stream(name),
                setting=_setting(task, plan, name, ""),
                **common,
            )
            for name in task.feature_parties
        },
        seed=plan.seed,
        record=record,
        device=plan.device,
    )


def target_scale(task: Task) -> tuple[float, float]:
    """Mean and spread of a regression target over the training rows; targets are trained on in these units."""
    if task.goal is not Goal.REGRESSION:
        return 0.0, 1.0
    labels = task.labels[task.train].double()
    return float(labels.mean()), float(labels.std()) or 1.0


def training_labels(task: Task) -> Tensor:
    """The labels that the loss sees, before any defence."""
    mean, spread = target_scale(task)
    return task.labels if task.goal is not Goal.REGRESSION else (task.labels - mean) / spread


def embedding_width(task: Task, plan: Plan) -> int:
    """The plan's width, or what its defences make of it."""
    width = plan.width
    for defence in plan.defences:
        width = defence.width(width, len(task.classes))
    return width


def _features(task: Task, plan: Plan, name: str) -> Features:
    """A party's columns, as its defences leave them."""
    values = task.features[name].values
    for defence in plan.defences:
        values = defence.features(values, _setting(task, plan, name, "features"))
    return replace(task.features[name], values=values)


def _bottom(task: Task, plan: Plan, name: str, features: Features) -> nn.Module:
    if isinstance(plan.bottoms, Mapping) and name not in plan.bottoms:
        raise ConfigError(f"Expected a bottom model for party {name!r}, got {sorted(plan.bottoms)}.")
    with Stream(plan.seed, name, "init", "bottom").scope():
        if isinstance(plan.bottoms, Mapping):
            bottom = deepcopy(plan.bottoms[name])
        else:
            bottom = plan.bottoms(features, embedding_width(task, plan))
        for defence in plan.defences:
            bottom = defence.model(bottom, _setting(task, plan, name, "bottom"))
    return bottom


def _made(top: Top, width: int, outputs: int) -> nn.Module:
    return deepcopy(top) if isinstance(top, nn.Module) else top(width, outputs)


def _setting(task: Task, plan: Plan, name: str, part: str) -> Setting:
    role = Role.LABEL_PARTY if name == task.label_party else Role.FEATURE_PARTY
    rng = generator(plan.seed, name, "defence", part)
    return Setting(name, role, part, len(task.classes), rng, plan.seed, derive(plan.seed, name, "private"))


def _shape(bottom: nn.Module, features: Features) -> tuple[int, ...]:
    """Shape of one row's embedding, found by embedding two rows with a copy of the module."""
    with torch.no_grad(), Stream(0, "shape").scope():
        embedding: Tensor = deepcopy(bottom).eval()(features.values.index_select(0, torch.tensor([0, 1])))
    if embedding.dim() < 2 or len(embedding) != 2:
        raise ConfigError(
            f"Expected a bottom to return one row per input row, got shape {tuple(embedding.shape)} for 2 rows."
        )
    return tuple(embedding.shape[1:])


def describe_all(defences: Sequence[Defence]) -> tuple[str, ...]:
    """The defences' spellings, with every setting."""
    return tuple(describe(defence, full=True) for defence in defences)
