"""The secret of a run: all that its attackers must not see, gathered for the judge alone."""

from collections.abc import Mapping
from copy import deepcopy
from functools import partial

import torch
from torch import Tensor

from cutlayer.attacks.tools.replay import first_moments
from cutlayer.auditing.rehearsal import outside, shadow_of
from cutlayer.data.task import Task
from cutlayer.errors import Inapplicable
from cutlayer.horizontal.federated import Federated
from cutlayer.horizontal.federation import whole_rows
from cutlayer.judge import Secret
from cutlayer.message import Kind, Phase
from cutlayer.parties.submitter import Submitter
from cutlayer.party import FeatureParty
from cutlayer.run import Run
from cutlayer.session import Session
from cutlayer.transcript import Transcript
from cutlayer.view import Known, Shadow, View


def secret_of(run: Run, shadow: Task | None = None) -> Secret:
    """The truth of a run; attackers practise on `shadow`, else on test rows."""
    bottoms = {
        name: deepcopy(party.modules["bottom"]).eval()
        for name, party in run.session.parties.items()
        if "bottom" in party.modules
    }
    features = {name: f.values for name, f in run.task.features.items()}
    seen = Transcript()
    run.session.peek(run.task.test, seen.write)
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
        course=lambda party, count: first_moments(run.view(party, predict=run.task.test[:1]), count),
    )


def secret_of_client(run: Federated, name: str) -> Secret:
    """The truth about a client of horizontal learning."""
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
