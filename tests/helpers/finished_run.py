"""Federations in a folder, for tests of prediction: tables, parties' files, and runs finished without a network."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch

from cutlayer.align.psi import follow, lead
from cutlayer.message import Batch, Phase
from cutlayer.net.party.finished_run import save_for_prediction
from cutlayer.net.party.manifest import RunManifest
from cutlayer.net.party.meeting import StartingPoint
from cutlayer.net.party.own_data import data_source
from cutlayer.net.party.party_file import PartyFile, read_file
from cutlayer.net.party.results import model_digests, save_models
from cutlayer.net.party.run_folder import RunFolder
from cutlayer.plan import feature_party, label_party, part_of, training_labels
from cutlayer.session import Session, exchange

PEOPLE = 300
SALT = "pepper and sixteen bytes"


def write_tables(folder: Path, *, parties: tuple[str, ...] = ("bank", "shop"), regression: bool = False) -> None:
    """A CSV file per party. Each lacks some people: bank the last 20, the others the first 10 times their place."""
    rng = np.random.default_rng(0)
    columns = {party: rng.normal(size=(PEOPLE, 3)) for party in parties}
    flags = rng.integers(0, 2, PEOPLE)
    score = sum(values.sum(axis=1) for values in columns.values()) + flags
    for place, party in enumerate(parties):
        label = party == parties[0]
        lines = ["customer,a,b,c" + (",y" if label else ",flag,town")]
        people = range(PEOPLE - 20) if label else range(10 * place, PEOPLE)
        for person in rng.permutation(people):
            cells = [f"c{person}", *(f"{value:.4f}" for value in columns[party][person])]
            goal = f"{score[person]:.3f}" if regression else ("no", "yes")[int(score[person] > 0)]
            cells += [goal] if label else [str(flags[person]), ("Ulm", "Bonn", "Kiel")[person % 3]]
            lines.append(",".join(cells))
        (folder / f"{party}.csv").write_text("\n".join(lines) + "\n")


def write_files(
    folder: Path,
    *,
    parties: tuple[str, ...] = ("bank", "shop"),
    port: int = 0,
    http: int = 0,
    seed: bool = True,
    run: str = "",
    keys: bool = False,
) -> dict[str, PartyFile]:
    """The parties' TOML files, read back."""
    names = ", ".join(f'"{party}"' for party in parties)
    for place, party in enumerate(parties):
        label = not place
        end = f'listen = "127.0.0.1:{port}"' if label else f'connect = "127.0.0.1:{port}"'
        lines = ["[party]", f'name = "{party}"', end, f'folder = "{party}-run"', "wait = 60"]
        lines += [f'keys = "{party}-keys"'] if keys else []
        lines += [f"seed = {place + 1}"] if seed else []
        if "dataset" not in run:
            lines += ["[data]", f'table = "{party}.csv"', 'id = "customer"', *(['label = "y"'] if label else [])]
        lines += ["[run]", f"parties = [{names}]", f'label_party = "{parties[0]}"', f'salt = "{SALT}"']
        lines += ["epochs = 3", "batch_size = 32", run]
        lines += ["[serve]", f'http = "127.0.0.1:{http}"'] if label else []
        (folder / f"{party}.toml").write_text("\n".join(lines) + "\n")
    return {party: read_file(folder / f"{party}.toml") for party in parties}


def _aligned(run: RunManifest, sources: dict[str, Any]) -> dict[str, torch.Tensor]:
    batch, salt = Batch(0, Phase.ALIGN, torch.empty(0, dtype=torch.int64)), SALT.encode()
    talks = {n: follow(n, s.ids, run.roster, batch, salt=salt) for n, s in sources.items() if n != run.label_party}
    talks[run.label_party] = lead(sources[run.label_party].ids, run.roster, batch, salt=salt, seed=run.seed)
    return exchange(talks, lambda message: None)


def finish(files: dict[str, PartyFile]) -> tuple[Session, dict[str, torch.Tensor]]:
    """Train in this process and write what every party's own process would; the session and the common rows."""
    run = next(iter(files.values())).run
    sources = {name: data_source(file) for name, file in files.items()}
    rows = dict.fromkeys(files, torch.empty(0, dtype=torch.int64)) if run.dataset else _aligned(run, sources)
    data = {name: source.select(rows[name], []) for name, source in sources.items()}
    label = data[run.label_party]
    facts = run.facts(len(label.classes))
    plans = {name: run.plan(private_seed=file.party.seed) for name, file in files.items()}
    parts = {name: part_of(name, own.features, facts, plans[name]) for name, own in data.items() if own.features}
    shapes = {name: part.shape for name, part in parts.items()}
    parties = {name: feature_party(name, parts[name], facts, plans[name]) for name in run.roster.feature_parties}
    labels = training_labels(label.labels, label.goal, label.train)
    own_part = parts.get(run.label_party)
    parties[run.label_party] = label_party(labels, own_part, shapes, facts, plans[run.label_party])
    session = Session(parties, seed=run.seed, record=lambda message: None)
    for epoch in range(run.epochs):
        session.train_epoch(epoch, label.train)
    for name, file in files.items():
        known = shapes if name == run.label_party else {name: shapes[name]}
        start = StartingPoint(parties[name], data[name], 0, facts.classes, known, "together")
        _save(file, start, rows[name])
    return session, rows


def _save(file: PartyFile, start: StartingPoint, rows: torch.Tensor) -> None:
    folder, parties = RunFolder(file.folder), {file.party.name: start.party}
    folder.keep_alignment("here", rows, "these")
    save_models(folder, parties)
    save_for_prediction(folder, start)
    record = {
        "manifest": file.run.to_json(),
        "classes": list(start.data.classes),
        "models": model_digests(parties),
    }
    folder.write(folder.path / "run.json", json.dumps(record).encode())
