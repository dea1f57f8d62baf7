"""judge(): run attacks on a View and score them against the Secret; the only reader of the truth.

Every score stands beside its baseline: the best guess of an attacker with the same rows and the
same side knowledge, but without what crossed the cut and without a trained model.
"""

from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from dataclasses import asdict, dataclass, field, replace
from time import perf_counter
from typing import Any

import numpy as np
import scipy
import torch
from torch import Generator, Tensor, nn

from cutlayer.attack import Asks, Attack, Form, Guess, Target
from cutlayer.blocks.passport import without_passports
from cutlayer.blocks.sparse import SparseRows
from cutlayer.defence import Role
from cutlayer.errors import CutlayerError, Inapplicable
from cutlayer.metrics.baseline import best_classes, best_values
from cutlayer.metrics.columns import agreement, best_match, correlations, two_valued, with_sums
from cutlayer.metrics.interval import mean_interval
from cutlayer.metrics.utility import auc, roc
from cutlayer.rng import draw_anew, generator
from cutlayer.view import Hints, Known, Moment, Shadow, View

SHOWN = 8  # pictures that a finding keeps to be looked at
COLUMNS = 500  # and columns
PAIRS = 40  # columns whose correlations with each other it keeps
FEW = 30  # rows: the mean of fewer is too near to each of them to be a guess at it


@dataclass(frozen=True)
class Secret:
    """The truth: labels, everyone's rows and everyone's models."""

    labels: Tensor
    features: Mapping[str, Tensor | SparseRows]
    bottoms: Mapping[str, nn.Module]
    top: nn.Module | None = None
    embeddings: Mapping[str, Known] = field(default_factory=dict)  # of the test rows, in prediction
    predict: Callable[[Tensor, Mapping[str, Tensor]], tuple[Tensor, Tensor]] | None = None
    # joint prediction with some parties' submissions replaced: outputs, and which rows were flagged
    shadow: Callable[[frozenset[str], int, bool, int], Shadow] | None = None
    # for these attackers so many rows outside of training, whether all models start as in the run, a seed
    course: Callable[[str, int], tuple[Moment, ...]] | None = None  # so many of a party's first training steps


@dataclass(frozen=True)
class Finding:
    """One attack's outcome. `low` and `high` bound a 95% interval over the attacked rows (or batches)."""

    attack: str
    attacker: str
    target: str
    victim: str
    metric: str
    value: float
    baseline: float
    baseline_name: str
    low: float
    high: float
    rows: int
    granted: str
    status: str = "done"
    reason: str = ""
    detail: str = ""  # what one number does not say, in a sentence made from the figures
    figures: Mapping[str, float] = field(default_factory=dict)  # by name: exact, columns, claimed, first, off
    seconds: float = 0.0  # that the attack took
    extras: Mapping[str, Any] = field(default_factory=dict)  # leakage per column, a ROC curve, some rows to look at

    def facts(self) -> dict[str, Any]:
        """The finding without its extras, as JSON has it."""
        facts = asdict(self)
        del facts["extras"]
        return facts


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
                told = replace(view, hints=grant(attack.asks, view, secret, seed), victim=victim)
                guess = attack.run(told, generator(seed, "attack", attack.describe(), victim))
            except Inapplicable as error:
                findings.append(_inapplicable(attack, view, str(error)))
                continue
            seconds = perf_counter() - start
            finding = replace(score(attack, told, guess, secret), seconds=round(seconds, 3))
            if finding.status == "done":
                on_guess(attack, guess, finding)
            findings.append(finding)
    return findings


def _elsewhere(attack: Attack, view: View) -> str | None:
    """In horizontal learning the server attacks, and clients' rows are what it is after."""
    vertical = attack.by is not Role.LABEL_PARTY or attack.target is not Target.FEATURES or attack.asks.course
    return "vertical-only" if view.manifest.shares and vertical else None


def victims(attack: Attack, view: View) -> list[str]:
    """Whose secret is attacked: the label party's labels, or the columns of each party that is not attacking."""
    if attack.target is not Target.FEATURES:
        return [view.manifest.label_party]
    return [name for name in view.manifest.roster.order if name not in view.parties]


def grant(asks: Asks, view: View, secret: Secret, seed: int) -> Hints:
    """Hand out the side knowledge that an attack asks for; attacks that ask for the same get the same rows."""
    train = view.manifest.train
    others = [name for name in view.manifest.roster.order if name not in view.parties]
    labels = _stratified(secret.labels, train, asks.labels, generator(seed, "known labels")) if asks.labels else None
    some = (
        train[torch.randperm(len(train), generator=generator(seed, "known rows"))[: asks.features]]
        if asks.features
        else None
    )
    shown = {v: secret.features[v] for v in others}
    return Hints(
        labels=None if labels is None else Known(labels, secret.labels[labels]),
        features={} if some is None else {v: Known(some, _dense(values, some)) for v, values in shown.items()},
        bottoms={v: without_passports(secret.bottoms[v], generator(seed, "passports")) for v in others}
        if asks.bottom
        else {},
        forms={v: _form(secret.bottoms[v], seed, v) for v in others} if asks.form else {},
        top=secret.top if asks.top else None,
        embeddings=secret.embeddings if asks.top else {},
        shapes={v: tuple(values.shape[1:]) for v, values in shown.items()},
        course={v: secret.course(v, asks.course) for v in others} if asks.course and secret.course else {},
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
    return without_passports(form, generator(seed, "form", name))


def _stratified(labels: Tensor, train: Tensor, count: int, rng: Generator) -> Tensor:
    """Draw rows as evenly over the classes as can be."""
    order = train[torch.randperm(len(train), generator=rng)]
    classes = labels[order]
    turn = torch.zeros(len(order), dtype=torch.int64)
    for c in classes.unique():
        where = (classes == c).nonzero()[:, 0]
        turn[where] = torch.arange(len(where))
    picked: Tensor = order[turn.sort(stable=True).indices[:count]]
    return picked.sort().values


def score(attack: Attack, view: View, guess: Guess, secret: Secret) -> Finding:
    """Compare a guess with the truth on rows that the attacker was not told, and with the baseline."""
    told, told_inputs = _told(attack, view)
    fresh = torch.ones(len(guess.rows), dtype=torch.bool) if told is None else ~torch.isin(guess.rows, told.rows)
    rows, values = guess.rows[fresh], guess.values[fresh]
    if len(guess.rows) and not len(rows):
        return _inapplicable(attack, view, f"all {len(guess.rows)} rows that it guesses were told to it: ask for fewer")
    if not len(rows) or not bool(torch.isfinite(values.double()).all()):
        raise CutlayerError(f"Expected {attack.name} to return one finite guess per row; got {len(rows)} rows.")
    metric: str
    figures: dict[str, float] = {}
    extras: dict[str, Any] = {}
    if guess.form is Form.COLUMNS:
        bits, places = two_valued(_dense(secret.features[view.victim], rows).flatten(1).numpy())
        if not bits.shape[1]:
            reason = f"binary-only: {view.victim} has no two-valued column ({values.shape[1]} claimed)"
            return _inapplicable(attack, view, reason)
        right = best_match(values.numpy() > 0.5, bits) == bits
        metric, value, low, high = "column accuracy", *mean_interval(right.mean(axis=1))
        baseline, name = float((0.5 + np.abs(bits.mean(axis=0) - 0.5)).mean()), "commoner value"
        exact = int(right.all(axis=0).sum())
        figures = {"exact": exact, "columns": bits.shape[1], "claimed": values.shape[1]}
        if values.shape[1]:
            best = agreement(values[:, :1].numpy() > 0.5, with_sums(bits)).max()
            figures["first"] = round(100 * float(best), 2)
        extras = {"columns": _columns(places, right.mean(axis=0), 0.5 + np.abs(bits.mean(axis=0) - 0.5))}
    elif guess.form is Form.SUBMISSIONS:
        metric, value, low, high, baseline, name = _forced(view, replace(guess, rows=rows, values=values), secret)
    elif guess.form is Form.VALUES:
        truth = _dense(secret.features[view.victim], rows)
        if guess.unordered and guess.groups is not None:
            values = _paired(truth, values.reshape(truth.shape), guess.groups[fresh])
        errors = (truth - values.reshape(truth.shape)).pow(2).flatten(1).mean(1).numpy()
        mean = _dense(secret.features[view.victim], view.manifest.train).float().mean(0) if len(rows) < FEW else None
        baseline, name = best_values(_inputs(view, rows), told_inputs, told, truth, mean)
        metric, value, low, high = "mse", *mean_interval(errors)
        extras = _looks(truth, values.reshape(truth.shape))
        if "correlations" in extras:
            both = [np.array(matrix) for matrix in extras["correlations"].values()]
            figures = {"off": round(float(np.abs(both[0] - both[1]).mean()), 3)}
    elif guess.form is Form.CLASSES:
        hits = (secret.labels[rows] == values).double().numpy()
        baseline, name = best_classes(_inputs(view, rows), told_inputs, told, secret.labels[rows])
        metric, value, low, high = "accuracy", *mean_interval(hits)
    else:
        groups = None if guess.groups is None else guess.groups[fresh].numpy()
        per_batch = _aucs(secret.labels[rows].numpy(), values.double().numpy(), groups)
        baseline, name = 0.5, "chance"
        extras = {"roc": roc(secret.labels[rows].numpy() == 1, values.double().numpy())}
        metric, value, low, high = "auc", *mean_interval(per_batch)
    return Finding(
        attack=attack.describe(),
        attacker="+".join(sorted(view.parties)),
        target=attack.target.value,
        victim=view.victim,
        metric=metric,
        value=value,
        baseline=baseline,
        baseline_name=name,
        low=low,
        high=high,
        rows=len(rows),
        granted=_granted(attack, view),
        detail=_sentence(figures),
        figures=figures,
        extras=extras,
    )


def _sentence(figures: Mapping[str, float]) -> str:
    """The figures for a reader."""
    if "off" in figures:
        return f"correlations of columns off by {figures['off']:.3f} on average"
    if "exact" not in figures:
        return ""
    first = f", the first right on {figures['first']:.2f}% of rows" if "first" in figures else ""
    exact, columns, claimed = (figures[name] for name in ("exact", "columns", "claimed"))
    return f"{exact} of {columns} two-valued columns exact, {claimed} claimed{first}"


def _paired(truth: Tensor, values: Tensor, groups: Tensor) -> Tensor:
    """Values in the order in which they fit the truth best, group by group."""
    found = values.clone()
    for group in groups.unique():
        here = (groups == group).nonzero()[:, 0]
        apart = torch.cdist(truth[here].flatten(1).double(), values[here].flatten(1).double()).square()
        found[here] = values[here[torch.from_numpy(scipy.optimize.linear_sum_assignment(apart.numpy())[1])]]
    return found


def _columns(places: Iterable[int], values: Any, baselines: Any) -> dict[str, list[float]]:
    """Leakage per input column: where it stands, how well it was guessed, and how well without the view."""
    rounded = [[round(float(one), 6) for one in some] for some in (values, baselines)]
    return {"places": [int(place) for place in places], "value": rounded[0], "baseline": rounded[1]}


def _looks(truth: Tensor, guess: Tensor) -> dict[str, Any]:
    """Of pictures a few to look at; of columns the error of each beside its variance, and how they go together."""
    if truth.dim() == 4:
        return {"shown": {"truth": truth[:SHOWN].tolist(), "guess": guess[:SHOWN].tolist()}}
    if truth.dim() != 2 or truth.shape[1] > COLUMNS:
        return {}
    errors = (truth - guess).pow(2).mean(dim=0)
    found: dict[str, Any] = {"columns": _columns(range(truth.shape[1]), errors, truth.var(dim=0, unbiased=False))}
    if 1 < truth.shape[1] <= PAIRS:
        found["correlations"] = {"truth": correlations(truth.numpy()), "guess": correlations(guess.numpy())}
    return found


def _forced(view: View, guess: Guess, secret: Secret) -> tuple[str, float, float, float, float, str]:
    """How often submissions bring about the wanted class, beside how often it comes about honestly."""
    if secret.predict is None:
        raise CutlayerError("Expected a run that can predict, to score submissions.")
    forced, flagged = secret.predict(guess.rows, {view.attacker: guess.values})
    honest, _ = secret.predict(guess.rows, {})
    hits = (forced.argmax(dim=1) == guess.wanted).double().numpy()
    baseline = float((honest.argmax(dim=1) == guess.wanted).double().mean())
    note = f"honest submissions; {int(flagged.sum())} of {len(flagged)} rows flagged"
    return "success", *mean_interval(hits), baseline, note


def _inapplicable(attack: Attack, view: View, reason: str) -> Finding:
    nan = float("nan")
    return Finding(
        attack=attack.describe(),
        attacker="+".join(sorted(view.parties)),
        target=attack.target.value,
        victim="",
        metric="",
        value=nan,
        baseline=nan,
        baseline_name="",
        low=nan,
        high=nan,
        rows=0,
        granted=str(attack.asks),
        status="does not apply",
        reason=reason,
    )


def _aucs(
    labels: np.ndarray[Any, Any], scores: np.ndarray[Any, Any], groups: np.ndarray[Any, Any] | None
) -> np.ndarray[Any, Any]:
    """AUC per batch; batches that lack a class are skipped (baselines.md section 2)."""
    if groups is None:
        return np.array([auc(labels == 1, scores)])
    found = np.array([auc(labels[groups == g] == 1, scores[groups == g]) for g in np.unique(groups)])
    return np.asarray(found[~np.isnan(found)])


def _dense(values: Tensor | SparseRows, rows: Tensor) -> Tensor:
    chosen = values.index_select(0, rows)
    return chosen.to_dense()


def _inputs(view: View, rows: Tensor) -> Tensor | None:
    """The attacker's own columns of these rows, flat."""
    own = [o.features for o in view.own.values() if o.features is not None]
    if not own or any(isinstance(values, SparseRows) for values in own):
        return None
    return torch.cat([_dense(values, rows).flatten(1).float() for values in own], dim=1)


def _told(attack: Attack, view: View) -> tuple[Known | None, Tensor | None]:
    """What the attacker was told of the secret, for some rows, and its own columns of those."""
    shadow, labels = view.hints.shadow, attack.target is Target.LABELS
    told = view.hints.labels if labels else view.hints.features.get(view.victim)
    if told is not None or shadow is None:
        return told, None if told is None else _inputs(view, told.rows)
    own = [shadow.features[name].flatten(1).float() for name in sorted(view.own) if name in shadow.features]
    values = shadow.labels if labels else shadow.features[view.victim]
    return Known(shadow.rows, values), torch.cat(own, dim=1) if own else None


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
