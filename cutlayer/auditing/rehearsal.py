"""Rehearsal: the same federation, trained again on rows outside of the training set, for attackers who practise."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from cutlayer.blocks.sparse import SparseRows
from cutlayer.data.task import Features, Task
from cutlayer.errors import ConfigError, Inapplicable
from cutlayer.party import FeatureParty
from cutlayer.plan import Plan, assemble
from cutlayer.rng import derive, draw_anew, generator
from cutlayer.run import Run
from cutlayer.session import Session
from cutlayer.training import train_plan
from cutlayer.view import Shadow, Start, View


def shadow_of(
    run: Run, parties: frozenset[str], count: int, shared: bool, seed: int, given: Task | None = None
) -> Shadow:
    """Shadow rows for some attackers: those of a `given` task, or `count` test rows (all, if there are fewer)."""
    rows = torch.empty(0, dtype=torch.int64)
    if given is None:
        rows = outside(run.task, count, seed)
        given = _only(run.task, rows)
    else:
        _fits(given, run.task)
    features = {name: _dense(held) for name, held in given.features.items()}
    return Shadow(rows, features, given.labels, _rehearser(given, run.plan, parties, shared))


def _rehearser(task: Task, plan: Plan, parties: frozenset[str], shared: bool) -> Callable[[int, int, bool], View]:
    """Trains on shadow rows alone: nothing that it holds leads to the rows that are attacked."""

    def rehearse(seed: int, epochs: int, defended: bool) -> View:
        size = min(plan.recipe.batch_size, len(task.train))
        same = replace(
            plan,
            recipe=replace(plan.recipe, epochs=epochs, batch_size=size, patience=None),
            defences=plan.defences if defended else (),
        )
        known = frozenset(task.features) | {task.label_party} if shared else parties

        begun: dict[str, Start] = {}

        def begin(session: Session) -> None:
            """Known parties start as in the run; models that were given as modules are drawn anew for the others."""
            as_it_was = assemble(task, same, lambda message: None)
            for name, party in session.parties.items():
                for part, module in party.modules.items():
                    if name in known:
                        module.load_state_dict(as_it_was.parties[name].modules[part].state_dict())
                    else:
                        draw_anew(module, 0, "shadow", seed, name, part)
                if name in parties and isinstance(party, FeatureParty):
                    begun[name] = deepcopy(Start(party.bottom, party.features, party.stream))

        anew = replace(same, private_seed=derive(seed, "shadow"))
        order = torch.randperm(len(task.train), generator=generator(seed, "shadow order"))  # else all would meet alike
        run = train_plan(replace(task, train=task.train[order]), anew, keep="all", begin=begin)
        view = run.view(parties)
        own = {n: replace(o, start=partial(deepcopy, begun[n])) if n in begun else o for n, o in view.own.items()}
        return replace(view, own=own)

    return rehearse


def outside(task: Task, count: int, seed: int) -> Tensor:
    """Test rows at random, but one of every class first."""
    order = task.test[torch.randperm(len(task.test), generator=generator(seed, "shadow rows"))]
    if task.classes:
        labels = task.labels[order]
        firsts = [int((labels == c).nonzero()[0, 0]) for c in labels.unique()]
        if len(firsts) < len(task.classes):
            raise Inapplicable("no test row of some class, for shadow data")
        rest = torch.ones(len(order), dtype=torch.bool)
        rest[firsts] = False
        order = torch.cat([order[firsts], order[rest]])
    return order[:count].sort().values


def _only(task: Task, rows: Tensor) -> Task:
    """A task of some rows, all of them for training."""
    features = {n: replace(f, values=f.values.index_select(0, rows)) for n, f in task.features.items()}
    every = torch.arange(len(rows))
    return Task(
        f"shadow of {task.name}", features, task.labels[rows], task.label_party, task.goal, task.classes, every, every
    )


def _fits(shadow: Task, task: Task) -> None:
    """Refuse a shadow set that is not of the same kind, lacks a class, or holds rows that are trained on."""
    if (shadow.label_party, *shadow.features) != (task.label_party, *task.features):
        raise ConfigError(f"Expected shadow data of {', '.join(task.features)}, got {', '.join(shadow.features)}.")
    for name, theirs in task.features.items():
        ours = shadow.features[name]
        wanted, came = ([column.name for column in held.columns] for held in (theirs, ours))
        if wanted != came or theirs.values.shape[1:] != ours.values.shape[1:]:
            pairs = zip(came, wanted, strict=False)
            odd = next((f"{a!r} in place of {b!r}" for a, b in pairs if a != b), "another number of them")
            raise ConfigError(f"Expected shadow columns of {name} as in the task, got {odd}.")
    if shadow.classes != task.classes:
        raise ConfigError(f"Expected shadow labels of {len(task.classes)} classes, got {len(shadow.classes)}.")
    lacking = sorted(set(range(len(task.classes))) - set(shadow.labels.tolist()))
    if lacking:
        raise ConfigError(f"Expected shadow rows of every class, got none of {task.classes[lacking[0]]!r}.")
    inside = len(_prints(shadow, torch.arange(len(shadow.labels))) & _prints(task, task.train))
    if inside:
        raise ConfigError(f"Expected shadow rows that are not trained on, got {inside} that are; leave them out.")


def _prints(task: Task, rows: Tensor) -> set[bytes]:
    """Every row's columns and label as bytes."""
    parts = [_dense(held)[rows].flatten(1).double() for held in task.features.values()]
    both = torch.cat([*parts, task.labels[rows, None].double()], dim=1)
    return {line.tobytes() for line in both.numpy()}


def _dense(features: Features) -> Tensor:
    values = features.values
    return values.to_dense() if isinstance(values, SparseRows) else values
