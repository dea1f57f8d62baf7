"""Rehearse: run all parties of a federation in one process, from the files that they would deploy with.

Alignment, parties and loop are the same, with `session.InProcess` in place of a network. With `seed` set in every
[party] the models are, bit for bit, those that a deployment gives.
"""

import time
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from cutlayer.align.psi import follow, lead
from cutlayer.errors import ConfigError
from cutlayer.json_types import Json
from cutlayer.message import Batch, Phase
from cutlayer.net.party.own_data import AlignedData, DataSource, data_source
from cutlayer.net.party.party_file import PartyFile
from cutlayer.net.party.results import model_digests, score
from cutlayer.net.peers.differences import differences
from cutlayer.party import FeatureParty, LabelParty
from cutlayer.plan import feature_party, label_party, part_of, training_labels
from cutlayer.session import Session, exchange
from cutlayer.training import using_threads
from cutlayer.transcript import Transcript


def rehearse(
    files: Sequence[PartyFile],
    sources: Mapping[str, DataSource] | None = None,
    on_step: Callable[[], None] = lambda: None,
) -> dict[str, Json]:
    """Align, train and test; return the record."""
    began = time.perf_counter()
    by_name = {file.party.name: file for file in files}
    run = files[0].run
    for file in files[1:]:
        if lines := differences(run.to_json(), file.run.to_json(), file.party.name):
            raise ConfigError(f"The manifests of {files[0].path} and {file.path} differ: {'; '.join(lines)}.")
    if set(by_name) != set(run.parties) or len(files) != len(run.parties):
        raise ConfigError(f"Expected the files of {', '.join(run.parties)}, got those of {', '.join(sorted(by_name))}.")
    data = _aligned(by_name, sources or {name: data_source(file) for name, file in by_name.items()})
    transcript = Transcript()
    parties = _parties(by_name, data)
    session = Session(parties, seed=run.seed, record=transcript.record, lookahead=run.lookahead, rest=run.checkpoint)
    label = data[run.label_party]
    with using_threads(1):
        history = [session.train_epoch(epoch, label.train, on_step) for epoch in range(run.epochs)]
        outputs = session.predict(label.test)
    return {
        **score(label, outputs),
        "rows": {"train": len(label.train), "test": len(label.test)},
        "models": model_digests(session.parties),
        "history": [{"epoch": epoch, "loss": loss} for epoch, loss in enumerate(history)],
        "bytes": transcript.traffic(),
        "seconds": round(time.perf_counter() - began, 1),
    }


def _aligned(files: dict[str, PartyFile], sources: Mapping[str, DataSource]) -> dict[str, AlignedData]:
    """Every party's data of the common rows, found by the same protocol."""
    run = next(iter(files.values())).run
    rows: dict[str, Tensor | None] = dict.fromkeys(files, torch.empty(0, dtype=torch.int64))
    if not run.dataset:
        batch, salt = Batch(0, Phase.ALIGN, torch.empty(0, dtype=torch.int64)), run.salt.encode()
        talks = {}
        for name, source in sources.items():
            assert source.ids is not None
            if name == run.label_party:
                talks[name] = lead(source.ids, run.roster, batch, salt=salt, seed=run.seed)
            else:
                talks[name] = follow(name, source.ids, run.roster, batch, salt=salt)
        rows = exchange(talks, lambda message: None)
    return {name: source.select(own, []) for name, source in sources.items() if (own := rows[name]) is not None}


def _parties(files: dict[str, PartyFile], data: dict[str, AlignedData]) -> dict[str, FeatureParty | LabelParty]:
    run = next(iter(files.values())).run
    label = data[run.label_party]
    facts = run.facts(len(label.classes))
    plans = {name: run.plan(private_seed=file.party.seed) for name, file in files.items()}
    parts = {
        name: part_of(name, own.features, facts, plans[name]) for name, own in data.items() if own.features is not None
    }
    parties: dict[str, FeatureParty | LabelParty] = {
        name: feature_party(name, parts[name], facts, plans[name]) for name in facts.roster.feature_parties
    }
    assert label.labels is not None and label.goal is not None
    labels = training_labels(label.labels, label.goal, label.train)
    shapes = {name: part.shape for name, part in parts.items()}
    plan = plans[run.label_party]
    parties[run.label_party] = label_party(labels, parts.get(run.label_party), shapes, facts, plan)
    return parties
