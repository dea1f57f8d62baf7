"""judge(): run attacks on a View and score them against the Secret; the only reader of the truth.

Every score stands beside its baseline: the best guess of an attacker with the same rows and the
same side knowledge, but without what crossed the cut and without a trained model.
"""

from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import partial
from time import perf_counter

import torch
from torch import Generator, Tensor, nn

from cutlayer.attack import Asks, Attack, Guess
from cutlayer.blocks.secret_parts import without_secrets
from cutlayer.blocks.sparse import SparseRows
from cutlayer.defence import Role
from cutlayer.draws import Draws
from cutlayer.errors import CutlayerError, Inapplicable
from cutlayer.finding import Finding, Status, Target
from cutlayer.metrics.forms import measure_of
from cutlayer.metrics.measure import Case
from cutlayer.rng import draw_anew, generator
from cutlayer.view import Hints, Known, Moment, Shadow, View


@dataclass(frozen=True)
class Secret:
    """The truth: labels, everyone's rows and everyone's models."""

    labels: Tensor
    features: Mapping[str, Tensor | SparseRows]
    bottoms: Mapping[str, nn.Module]
    top: nn.Module | None = None
    embeddings: Mapping[str, Known] = field(default_factory=dict)  # of the test rows, in prediction
    predict: Callable[[Tensor, Mapping[str, Tensor]], tuple[Tensor, Tensor]] | None = None
    # joint prediction of rows with some parties' submissions replaced: outputs, and which rows were flagged
    shadow: Callable[[frozenset[str], int, bool, int], Shadow] | None = None
    # given the attackers, how many rows outside of training, whether all models start as in the run, and a seed
    course: Callable[[str, int], tuple[Moment, ...]] | None = None  # given a party, and how many of its first steps


def judge(
    attacks: Iterable[Attack],
    view_for: Callable[[Attack], View],
    secret: Secret,
    *,
    seed: int = 0,
    on_guess: Callable[[Attack, Guess, Finding], None] = lambda attack, guess, finding: None,
) -> list[Finding]:
    """Run each attack on its view, with exactly the hints it asks for, and score its guess."""
    findings = []
    for attack in attacks:
        view = view_for(attack)
        if reason := _elsewhere(attack, view) or attack.applies(view.manifest):
            findings.append(_inapplicable(attack, view, reason))
            continue
        for victim in victims(attack, view):
            start = perf_counter()
            try:
                informed = replace(view, hints=grant(attack.asks, view, secret, seed), victim=victim)
                guess = attack.run(informed, generator(seed, "attack", attack.describe(), victim))
                seconds = round(perf_counter() - start, 3)
                finding = replace(score(attack, informed, guess, secret), seconds=seconds)
            except Inapplicable as error:
                findings.append(_inapplicable(attack, view, str(error)))
                continue
            on_guess(attack, guess, finding)
            findings.append(finding)
    return findings


def _elsewhere(attack: Attack, view: View) -> str | None:
    """In horizontal learning the server attacks, and clients' rows are what it is after."""
    vertical = attack.by is not Role.LABEL_PARTY or attack.target is not Target.FEATURES or attack.asks.course
    return "vertical-only" if view.manifest.shares and vertical else None


def victims(attack: Attack, view: View) -> list[str]:
    """Whose secret is attacked: the label party's, or that of each party with columns that does not attack."""
    if attack.target is not Target.FEATURES:
        return [view.manifest.label_party]
    return [name for name in view.manifest.roster.order if name not in view.parties]


def grant(asks: Asks, view: View, secret: Secret, seed: int) -> Hints:
    """Hand out the side knowledge that an attack asks for; attacks that ask for the same get the same rows."""
    train = view.manifest.train
    others = [name for name in view.manifest.roster.order if name not in view.parties]
    labelled = _stratified(secret.labels, train, asks.labels, generator(seed, "known labels")) if asks.labels else None
    rows = _some_rows(train, asks.features, generator(seed, "known rows")) if asks.features else None
    theirs = {name: secret.features[name] for name in others}
    bottoms = {name: secret.bottoms[name] for name in others} if asks.bottom or asks.form else {}
    return Hints(
        labels=None if labelled is None else Known(labelled, secret.labels[labelled]),
        features={} if rows is None else {name: Known(rows, _dense(values, rows)) for name, values in theirs.items()},
        bottoms={name: without_secrets(bottom, Draws(seed, "passports")) for name, bottom in bottoms.items()}
        if asks.bottom
        else {},
        forms={name: _form(bottom, seed, name) for name, bottom in bottoms.items()} if asks.form else {},
        top=secret.top if asks.top else None,
        embeddings=secret.embeddings if asks.top else {},
        shapes={name: tuple(values.shape[1:]) for name, values in theirs.items()},
        course={name: secret.course(name, asks.course) for name in others} if asks.course and secret.course else {},
        shadow=secret.shadow(view.parties, asks.shadow, asks.start, seed) if asks.shadow and secret.shadow else None,
    )


def _form(bottom: nn.Module, seed: int, name: str) -> nn.Module:
    """A bottom as it is built, without what it learned: fresh weights, and zeros where no layer says how it begins."""
    form = deepcopy(bottom).cpu()
    learned = form.state_dict()
    for key, buffer in form.named_buffers():
        if key in learned and buffer.is_floating_point():  # what is not saved belongs to the form
            buffer.zero_()
    draw_anew(form, seed, "form", name)
    return without_secrets(form, Draws(seed, "form", name))


def _some_rows(train: Tensor, count: int, rng: Generator) -> Tensor:
    return train[torch.randperm(len(train), generator=rng)[:count]]


def _stratified(labels: Tensor, train: Tensor, count: int, rng: Generator) -> Tensor:
    """Draw rows as evenly over the classes as possible."""
    order = train[torch.randperm(len(train), generator=rng)]
    classes = labels[order]
    turn = torch.zeros(len(order), dtype=torch.int64)
    for number in classes.unique():
        members = (classes == number).nonzero()[:, 0]
        turn[members] = torch.arange(len(members))
    picked: Tensor = order[turn.sort(stable=True).indices[:count]]
    return picked.sort().values


def score(attack: Attack, view: View, guess: Guess, secret: Secret) -> Finding:
    """Compare a guess with the truth on rows that the attacker was not told, and with the baseline."""
    measure, case = measure_of(guess.form), _case(attack, view, guess, secret)
    result = measure.score(case)
    return Finding(
        attack=attack.describe(),
        attacker=_attackers(view),
        target=attack.target,
        victim=view.victim,
        metric=measure.metric,
        value=result.value,
        baseline=result.baseline,
        baseline_name=result.baseline_name,
        low=result.low,
        high=result.high,
        rows=len(case.guess.rows),
        granted=_granted(attack, view),
        detail=measure.sentence(result.figures),
        figures=result.figures,
        extras=result.extras,
    )


def _case(attack: Attack, view: View, guess: Guess, secret: Secret) -> Case:
    """The part of a guess that the attacker was not told, beside the truth."""
    known, known_own = _known(attack, view)
    fresh = torch.ones(len(guess.rows), dtype=torch.bool) if known is None else ~torch.isin(guess.rows, known.rows)
    rows, values = guess.rows[fresh], guess.values[fresh]
    if len(guess.rows) and not len(rows):
        raise Inapplicable(f"all {len(guess.rows)} rows that it guesses were told to it: ask for fewer")
    if not len(rows) or not bool(torch.isfinite(values.double()).all()):
        raise CutlayerError(f"Expected {attack.name} to return one finite guess per row; got {len(rows)} rows.")
    groups = None if guess.groups is None else guess.groups[fresh]
    return Case(
        guess=replace(guess, rows=rows, values=values, groups=groups),
        attacker=view.attacker,
        victim=view.victim,
        labels=secret.labels[rows],
        features=lambda: _dense(secret.features[view.victim], rows),
        mean=lambda: _dense(secret.features[view.victim], view.manifest.train).float().mean(0),
        own=lambda: _own(view, rows),
        known=known,
        known_own=known_own,
        predict=None if secret.predict is None else partial(secret.predict, rows),
    )


def _inapplicable(attack: Attack, view: View, reason: str) -> Finding:
    nan = float("nan")
    return Finding(
        attack=attack.describe(),
        attacker=_attackers(view),
        target=attack.target,
        victim="",
        metric="",
        value=nan,
        baseline=nan,
        baseline_name="",
        low=nan,
        high=nan,
        rows=0,
        granted=str(attack.asks),
        status=Status.DOES_NOT_APPLY,
        reason=reason,
    )


def _attackers(view: View) -> str:
    return "+".join(sorted(view.parties))


def _dense(values: Tensor | SparseRows, rows: Tensor) -> Tensor:
    return values.index_select(0, rows).to_dense()


def _own(view: View, rows: Tensor) -> Tensor | None:
    """The attacker's own columns of these rows, flat."""
    held = [own.features for own in view.own.values() if own.features is not None]
    if not held or any(isinstance(values, SparseRows) for values in held):
        return None
    return torch.cat([_dense(values, rows).flatten(1).float() for values in held], dim=1)


def _known(attack: Attack, view: View) -> tuple[Known | None, Tensor | None]:
    """What the attacker was told of the secret, for some rows, and its own columns of those."""
    shadow, labels = view.hints.shadow, attack.target is Target.LABELS
    known = view.hints.labels if labels else view.hints.features.get(view.victim)
    if known is not None or shadow is None:
        return known, None if known is None else _own(view, known.rows)
    held = [shadow.features[name].flatten(1).float() for name in sorted(view.own) if name in shadow.features]
    values = shadow.labels if labels else shadow.features[view.victim]
    return Known(shadow.rows, values), torch.cat(held, dim=1) if held else None


def _granted(attack: Attack, view: View) -> str:
    """The side knowledge that an attack was given: of rows and steps there may be fewer than it asked for."""
    asks, hints = attack.asks, view.hints
    return str(
        replace(
            asks,
            labels=0 if hints.labels is None else len(hints.labels.rows),
            features=max((len(known.rows) for known in hints.features.values()), default=0),
            shadow=asks.shadow if hints.shadow is None else len(hints.shadow.labels),
            course=max(map(len, hints.course.values()), default=0),
        )
    )
