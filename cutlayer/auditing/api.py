"""audit(): every attack against every defence, over seeds; and the Report that holds the findings."""

import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cutlayer._validate import listed, one_of, shown, whole
from cutlayer.attack import Attack, Guess
from cutlayer.attacks.tools.practice import course
from cutlayer.auditing.rehearsal import outside, shadow_of
from cutlayer.data.task import Task
from cutlayer.defence import Defence, Role
from cutlayer.errors import ConfigError, Inapplicable
from cutlayer.files import write_text
from cutlayer.horizontal.federation import Federated, whole_rows
from cutlayer.judge import Finding, Secret, judge
from cutlayer.message import Kind, Phase
from cutlayer.metrics.interval import mean_interval
from cutlayer.parties.submitter import Submitter
from cutlayer.party import FeatureParty
from cutlayer.report.html import html
from cutlayer.report.record import COLUMNS, WORDS, Record
from cutlayer.run import Run
from cutlayer.session import Session
from cutlayer.training import train, using_threads
from cutlayer.transcript import Transcript
from cutlayer.view import Known, Shadow, View

Setups = Mapping[str, Sequence[Defence]]
OnGuess = Callable[[Attack, Guess, Finding], None]


def secret_of(run: Run, shadow: Task | None = None) -> Secret:
    """The truth of a run, for the judge alone; attackers practise on `shadow`, else on test rows."""
    bottoms = {
        name: deepcopy(party.modules["bottom"]).eval()
        for name, party in run.session.parties.items()
        if "bottom" in party.modules
    }
    features = {name: f.values for name, f in run.task.features.items()}
    seen = Transcript()
    run.session.predict(run.task.test, seen.write)
    channels = {channel.sender: channel for channel in seen.channels.values() if channel.kind is Kind.EMBEDDING}
    embeddings = {name: Known(*channel.read()[:2]) for name, channel in channels.items()}
    top = deepcopy(run.session.label_party.top).cpu().eval()
    return Secret(
        run.task.labels,
        features,
        bottoms,
        top,
        embeddings,
        predict=lambda rows, sent: predict_with(run, rows, sent),
        shadow=partial(shadow_of, run, given=shadow),
        course=lambda party, count: course(run.view(party, predict=run.task.test[:1]), count),
    )


def secret_of_client(run: Federated, name: str) -> Secret:
    """The truth about a client of horizontal learning, for the judge alone."""
    client, values = run.clients[name], whole_rows(run.task)

    def shadow(parties: frozenset[str], count: int, shared: bool, seed: int) -> Shadow:
        rows = outside(run.task, count, seed)
        return Shadow(rows, {name: values[rows]}, run.task.labels[rows], _no_rehearsal)

    return Secret(
        run.task.labels,
        {name: values},
        {name: deepcopy(client.bottom).eval()},
        deepcopy(client.top).cpu().eval(),
        shadow=shadow,
    )


def _no_rehearsal(seed: int, epochs: int, defended: bool) -> View:
    raise Inapplicable("vertical-only")


def predict_with(run: Run, rows: Tensor, submissions: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
    """Predict jointly while some parties submit what they like; outputs, and which rows were flagged."""
    label = run.session.label_party
    parties = dict(run.session.parties)
    for name, values in submissions.items():
        honest = parties[name]
        assert isinstance(honest, FeatureParty)
        parties[name] = Submitter(honest, dict(zip(rows.tolist(), values, strict=True)))
    session = Session(parties, seed=run.plan.seed, record=lambda message: None, device=run.plan.device)
    before = len(label.flags[Phase.PREDICT])
    outputs = session.predict(rows)
    odd = label.flags[Phase.PREDICT][before:]
    del label.flags[Phase.PREDICT][before:]
    return outputs, torch.isin(rows, torch.cat(odd)) if odd else torch.zeros(len(rows), dtype=torch.bool)


def attack_run(
    run: Run | Federated,
    attacks: Iterable[Attack],
    *,
    by: str | None = None,
    seed: int = 0,
    threads: int = 1,
    shadow: Task | None = None,
    on_guess: OnGuess = lambda attack, guess, finding: None,
) -> list[Finding]:
    """Attack a finished run. `by` names the attacking party, else the first that fits each attack. Attacks that
    practise do so on a `shadow` task of the same kind, else on test rows. In horizontal learning the server attacks,
    and `by` names the client that it is after, else the first."""
    if isinstance(run, Federated):
        client = by or next(iter(run.clients))
        one_of("client", client, run.clients)
        trained, secret = run.clients[client].rows, secret_of_client(run, client)
    else:
        attacks = list(attacks)
        if by:
            for attack in attacks:
                refuse_role(run.task, attack, by)
        client, trained, secret = None, run.task.train, secret_of(run, shadow)
    views: dict[tuple[str, bool], View] = {}

    def view_for(attack: Attack) -> View:
        name = client or by or _attacker(run.task, attack)
        key = (name, attack.asks.frozen_train)
        if key not in views:
            rows = torch.cat([trained, run.task.test]) if attack.asks.frozen_train else run.task.test
            views[key] = run.view(name, predict=rows)
        return views[key]

    with using_threads(threads):
        return judge(attacks, view_for, secret, seed=seed, on_guess=on_guess)


def role_of(task: Task, party: str) -> Role:
    """What a party of a task is."""
    one_of("party", party, sorted({*task.features, task.label_party}))
    return Role.LABEL_PARTY if party == task.label_party else Role.FEATURE_PARTY


def refuse_role(task: Task, attack: Attack, by: str) -> None:
    """Refuse a party of the other role: it would attack what is its own, or what it never sees."""
    if attack.by is not role_of(task, by):
        who, held = ("a", "the") if by == task.label_party else ("the", "no")
        instead = _attacker(task, attack)
        raise ConfigError(
            f"{attack.name} is by {who} {attack.by.value}, and {by} holds {held} labels: use --by {instead}."
        )


def _attacker(task: Task, attack: Attack) -> str:
    return task.label_party if attack.by is Role.LABEL_PARTY else task.feature_parties[0]


@dataclass
class Report:
    """Findings, one row per defence, attack and seed, each beside its baseline and the task's utility."""

    rows: list[dict[str, Any]] = field(default_factory=list)

    def summary(self) -> list[dict[str, Any]]:
        """Mean over seeds per defence and attack, with a 95% interval (over seeds where there are several)."""
        groups: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
        for row in self.rows:
            groups.setdefault((row["defence"], row["attack"], row["victim"]), []).append(row)
        return [_summarise(rows) for rows in groups.values()]

    def to_csv(self) -> str:
        """All rows as CSV, without the figures by name, which differ between attacks."""
        text = io.StringIO()
        columns = [key for key in self.rows[0] if key != "figures"] if self.rows else ["defence", "attack", "seed"]
        writer = csv.DictWriter(text, columns, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(self.rows)
        return text.getvalue()

    def save(self, path: Path | str) -> None:
        """Write the findings: .csv for all rows, .html for a page to look at."""
        path = Path(path)
        if path.suffix not in (".csv", ".html"):
            raise ConfigError(f"Expected a file that ends in .csv or .html, got {path}: name it so.")
        write_text(path, html(self.record()) if path.suffix == ".html" else self.to_csv())

    def record(self) -> Record:
        """The same as plain data, for a report."""
        return Record(title="What each party can learn", rows=[_line(row) for row in self.rows])


def _line(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row as a report wants it: unknown numbers are None, utility has one name."""
    known = {
        **row,
        "accuracy": row["utility"],
        "cell": f"{row['defence']} {row['attack']} {row['seed']}",
        "strength": "",
    }
    found = {key: known.get(key, "" if key in WORDS else None) for key in COLUMNS}
    return {key: None if value != value else value for key, value in found.items()}


def _summarise(rows: list[dict[str, Any]]) -> dict[str, Any]:
    mean = {key: float(np.mean([row[key] for row in rows])) for key in ("value", "baseline", "utility")}
    low, high = rows[0]["low"], rows[0]["high"]
    if len(rows) > 1:
        _, low, high = mean_interval([row["value"] for row in rows])
    return rows[0] | mean | {"low": low, "high": high, "seeds": len(rows)}


def audit(
    task: Task,
    *,
    defences: Setups,
    attacks: Sequence[Attack],
    seeds: Iterable[int] = (0,),
    progress: Callable[[str], None] = lambda text: None,
    trainer: Callable[..., Run | Federated] = train,
    on_run: Callable[[str, int, Any], None] = lambda name, seed, run: None,
    on_guess: Callable[[str, int, Attack, Guess, Finding], None] = lambda name, seed, attack, guess, finding: None,
    **options: Any,
) -> Report:
    """Train once per defence and seed, run every attack on each run, and report. `options` go to `train`, or to
    another `trainer`: `horizontal.federate`."""
    setups, attacks, seeds = _asked(defences, attacks, seeds)
    report = Report()
    for name, chosen in setups.items():
        for seed in seeds:
            progress(f"training with defence {name}, seed {seed}")
            run = trainer(task, defences=chosen, seed=seed, **{"keep": "ends"} | options)
            on_run(name, seed, run)
            utility = "accuracy" if "accuracy" in run.metrics else "r2"
            progress(f"attacking defence {name}, seed {seed}")

            def seen(attack: Attack, guess: Guess, finding: Finding, name: str = name, seed: int = seed) -> None:
                on_guess(name, seed, attack, guess, finding)

            for finding in attack_run(run, attacks, seed=seed, on_guess=seen):
                row = {"defence": name, "seed": seed, **finding.facts()}
                row |= {"utility": run.metrics[utility], "utility_metric": utility}
                row |= {"bytes": sum(t["sent"] for t in run.transcript.traffic().values())}
                report.rows.append(row)
    return report


def _asked(defences: object, attacks: object, seeds: object) -> tuple[Setups, tuple[Attack, ...], tuple[int, ...]]:
    """Check what is to be tried before hours of training."""
    example = "cl.defences.MaxNorm()"
    if not isinstance(defences, Mapping):
        wanted = f"{{'none': [], 'max-norm': [{example}]}}"
        raise ConfigError(f"Expected defences to name each list of defences, as in {wanted}, got {shown(defences)}.")
    if isinstance(seeds, str) or not isinstance(seeds, Iterable):
        raise ConfigError(f"Expected seeds to be a list of whole numbers, such as range(3), got {shown(seeds)}.")
    setups = {name: listed(f"defences[{name!r}]", some, Defence, example) for name, some in defences.items()}
    chosen, numbers = listed("attacks", attacks, Attack, "cl.attacks.ModelCompletion()"), tuple(seeds)
    for what, given in (("defences", setups), ("attacks", chosen), ("seeds", numbers)):
        if not given:
            raise ConfigError(f"Expected {what} to hold at least one to try, got none.")
    for seed in numbers:
        whole("seed", seed)
    return setups, chosen, numbers
