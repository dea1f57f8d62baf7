"""Plan: what is trained and how; from it and a Task, the parties of a Session are made."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from math import prod

import torch
from torch import Tensor, nn

from cutlayer._validate import at_least, instance, shown, whole
from cutlayer.cut import Cut, Roster, Shape
from cutlayer.cuts.concat import Concat
from cutlayer.data.task import Features, Goal, Task
from cutlayer.defence import Course, Defence, Role, Setting, Subject
from cutlayer.draws import Draws
from cutlayer.errors import ConfigError
from cutlayer.message import Message
from cutlayer.models.defaults import default_bottom, default_top
from cutlayer.parties.eager import EagerParty
from cutlayer.party import Equipment, FeatureParty, LabelParty
from cutlayer.recipe import Recipe
from cutlayer.rng import Stream, derive, first_weights
from cutlayer.session import Session
from cutlayer.spec import describe

#: A function from a party's features and the embedding's width to a module.
MakeBottom = Callable[[Features, int], nn.Module]
#: One for all parties, or by party a module or such a function.
Bottoms = Mapping[str, nn.Module] | Mapping[str, MakeBottom] | MakeBottom
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
    private_seed: int | None = None  # of a party's own draws, in a deployment; the run's seed in a simulation
    device: str = "cpu"
    lookahead: int = 0  # batches that a feature party begins before the gradients of earlier ones are back
    parties: Mapping[str, type[FeatureParty]] = field(default_factory=dict)  # of another class, such as GreedyParty

    def __post_init__(self) -> None:
        instance("cut", self.cut, Cut, "cl.Sum()")
        instance("recipe", self.recipe, Recipe, "cl.Recipe(epochs=30)")
        whole("seed", self.seed)
        at_least("width", self.width, 1)
        at_least("lookahead", self.lookahead, 0)
        for name, kind in self.parties.items():
            if not (isinstance(kind, type) and issubclass(kind, FeatureParty)):
                raise ConfigError(f"Expected parties[{name!r}] to be a class of feature party, got {shown(kind)}.")
            if self.lookahead:
                raise ConfigError(
                    f"Expected no lookahead={self.lookahead} beside {name} as a {kind.__name__}; leave one of them out."
                )

    def kind_of(self, party: str) -> type[FeatureParty]:
        """The class of a feature party: the one that was asked for, else an honest one."""
        return self.parties.get(party, EagerParty if self.lookahead else FeatureParty)


@dataclass(frozen=True, slots=True)
class Facts:
    """What every party knows about the task."""

    roster: Roster
    classes: int  # 0 for regression
    rows: int = 0  # that are trained on; 0 where that is not known yet

    @property
    def outputs(self) -> int:
        """Width of the top model's output."""
        return self.classes or 1


@dataclass(frozen=True, slots=True)
class Contribution:
    """What one party brings to the cut: its columns and bottom, as its defences leave them."""

    features: Features
    bottom: nn.Module
    shape: Shape  # of one row's embedding


def roster_of(task: Task) -> Roster:
    """The public list of parties."""
    return Roster(task.label_party, tuple(task.features))


def facts_of(task: Task) -> Facts:
    """What every party of a task knows."""
    return Facts(roster_of(task), len(task.classes), len(task.train))


def course_of(facts: Facts, plan: Plan) -> Course:
    """How much a run will release. Early stopping may release less, but when it stops is no secret to account with."""
    return Course(
        rows=facts.rows,
        batch_size=plan.recipe.batch_size,
        epochs=plan.recipe.epochs,
        feature_parties=len(facts.roster.feature_parties),
        classes=facts.classes,
        defences=plan.defences,
        plain_cut=type(plan.cut).settle is Cut.settle,
    )


def assemble(task: Task, plan: Plan, record: Callable[[Message], None]) -> Session:
    """Make each party with its own columns, models, defences and random stream."""
    facts = facts_of(task)
    for name, kind in plan.parties.items():
        if name not in task.feature_parties:
            names = ", ".join(task.feature_parties)
            raise ConfigError(f"Expected {name!r}, a {kind.__name__}, to be a feature party, one of {names}.")
    if isinstance(plan.bottoms, Mapping) and (strangers := sorted(set(plan.bottoms) - set(task.features))):
        names = ", ".join(task.features)
        raise ConfigError(f"Expected bottoms of parties with columns, one of {names}, got {', '.join(strangers)}.")
    parts = {name: part_of(name, features, facts, plan) for name, features in task.features.items()}
    shapes = {name: part.shape for name, part in parts.items()}
    labels = training_labels(task.labels, task.goal, task.train)
    parties: dict[str, FeatureParty | LabelParty] = {
        name: feature_party(name, parts[name], facts, plan) for name in task.feature_parties
    }
    parties[task.label_party] = label_party(labels, parts.get(task.label_party), shapes, facts, plan)
    return Session(parties, seed=plan.seed, record=record, device=plan.device, lookahead=plan.lookahead)


def part_of(name: str, features: Features, facts: Facts, plan: Plan) -> Contribution:
    """Make a party's columns and bottom, as its defences leave them."""
    values = features.values
    for defence, setting in _settings(name, Subject.FEATURES, len(values), facts, plan):
        values = defence.features(values, setting)
    features = replace(features, values=values)
    bottom = _bottom(name, features, facts, plan)
    return Contribution(features, bottom, shape_of(bottom, features))


def feature_party(name: str, part: Contribution, facts: Facts, plan: Plan) -> FeatureParty:
    """Make a feature party, which needs to know nothing of the others' columns."""
    values, bottom = part.features.values.to(plan.device), part.bottom.to(plan.device)
    return plan.kind_of(name)(name, values, bottom, _equipment(name, len(values), facts, plan))


def label_party(
    labels: Tensor, part: Contribution | None, shapes: Mapping[str, Shape], facts: Facts, plan: Plan
) -> LabelParty:
    """Make the label party, which needs to know the shapes of all embeddings."""
    name = facts.roster.label_party
    with first_weights(Draws(_own_seed(plan), name, "init", "top")):
        joint = plan.cut.shape([shapes[party] for party in facts.roster.order])
        top = make_top(plan.top, prod(joint), facts.outputs)
        for defence, setting in _settings(name, Subject.TOP, len(labels), facts, plan):
            top = defence.model(top, setting)
    for defence, setting in _settings(name, Subject.LABELS, len(labels), facts, plan):
        labels = defence.labels(labels, setting)
    return LabelParty(
        name,
        labels.to(plan.device),
        top.to(plan.device),
        _equipment(name, len(labels), facts, plan),
        features=None if part is None else part.features.values.to(plan.device),
        bottom=None if part is None else part.bottom.to(plan.device),
    )


def target_scale(labels: Tensor, goal: Goal, train: Tensor) -> tuple[float, float]:
    """Mean and spread of a regression target over the training rows; targets are trained on in these units."""
    if goal is not Goal.REGRESSION:
        return 0.0, 1.0
    seen = labels[train].double()
    return float(seen.mean()), float(seen.std()) or 1.0


def training_labels(labels: Tensor, goal: Goal, train: Tensor) -> Tensor:
    """The labels that the loss sees, before any defence."""
    mean, spread = target_scale(labels, goal, train)
    return labels if goal is not Goal.REGRESSION else (labels - mean) / spread


def embedding_width(classes: int, plan: Plan) -> int:
    """The plan's width, or what its defences make of it."""
    width = plan.width
    for defence in plan.defences:
        width = defence.width(width, classes)
    return width


def _equipment(name: str, rows: int, facts: Facts, plan: Plan) -> Equipment:
    return Equipment(
        cut=deepcopy(plan.cut),
        roster=facts.roster,
        recipe=plan.recipe,
        stream=Stream(_own_seed(plan), name, device=plan.device),
        setting=_setting(name, Subject.PARTY, rows, facts, plan),
        defences=plan.defences,
    )


def _bottom(name: str, features: Features, facts: Facts, plan: Plan) -> nn.Module:
    source = _source(name, plan.bottoms)
    with first_weights(Draws(_own_seed(plan), name, "init", "bottom")):
        if isinstance(source, nn.Module):
            bottom = deepcopy(source)
        else:
            bottom = source(features, embedding_width(facts.classes, plan))
        for defence, setting in _settings(name, Subject.BOTTOM, len(features.values), facts, plan):
            bottom = defence.model(bottom, setting)
    return bottom


def _source(name: str, bottoms: Bottoms) -> nn.Module | MakeBottom:
    """Where a party's bottom comes from."""
    if not isinstance(bottoms, Mapping):
        return bottoms
    try:
        return bottoms[name]
    except KeyError:
        raise ConfigError(f"Expected a bottom model for party {name!r}, got {sorted(bottoms)}.") from None


def _own_seed(plan: Plan) -> int:
    return plan.seed if plan.private_seed is None else plan.private_seed


def make_top(top: Top, width: int, outputs: int) -> nn.Module:
    """Make a top: a copy of a module, or what a function returns."""
    return deepcopy(top) if isinstance(top, nn.Module) else top(width, outputs)


def _settings(name: str, subject: Subject, rows: int, facts: Facts, plan: Plan) -> Iterator[tuple[Defence, Setting]]:
    """Each defence with what it may know. Its draws are its own: what one makes public says nothing of another's."""
    setting = _setting(name, subject, rows, facts, plan)
    for number, defence in enumerate(plan.defences):
        yield defence, replace(setting, rng=Draws(_own_seed(plan), name, "defence", subject.value, number))


def _setting(name: str, subject: Subject, rows: int, facts: Facts, plan: Plan) -> Setting:
    role = Role.LABEL_PARTY if name == facts.roster.label_party else Role.FEATURE_PARTY
    own = _own_seed(plan)
    rng = Draws(own, name, "defence", subject.value)
    private, course = derive(own, name, "private"), course_of(facts, plan)
    return Setting(name, role, subject, facts.classes, rng, plan.seed, private, rows, course)


def shape_of(bottom: nn.Module, features: Features) -> Shape:
    """Shape of one row's embedding, found by embedding two rows with a copy of the module."""
    try:
        with torch.no_grad(), Stream(0, "shape").scope():
            embedding: Tensor = deepcopy(bottom).eval()(features.values.index_select(0, torch.tensor([0, 1])))
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        shape = tuple(features.values.shape[1:])
        reason = str(error).splitlines()[0]
        raise ConfigError(f"The bottom model cannot take rows of shape {shape}: {reason}.") from error
    if embedding.dim() < 2 or len(embedding) != 2:
        raise ConfigError(
            f"Expected a bottom to return one row per input row, got shape {tuple(embedding.shape)} for 2 rows."
        )
    return tuple(embedding.shape[1:])


def describe_all(defences: Sequence[Defence]) -> tuple[str, ...]:
    """The defences as text, with every setting."""
    return tuple(describe(defence, full=True) for defence in defences)
