"""Work: one training, and all attacks on it that are missing. A pure function of words, so it runs anywhere."""

import base64
import io
import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from cutlayer.attack import Attack
from cutlayer.auditing.attacking import attack_run
from cutlayer.data.task import Task
from cutlayer.errors import CutlayerError
from cutlayer.experiment.study import Study, study_again
from cutlayer.finding import Finding, Status
from cutlayer.rng import Stream
from cutlayer.run import Run
from cutlayer.settings import read_attacks
from cutlayer.training import train_plan

ANY = ("norm-score",)  # a study has attacks; which, does not matter for its data


def work(words_of_study: Mapping[str, Any], setup: str, seed: int, attacks: Sequence[str]) -> dict[str, Any]:
    """Train one setup and attack it; per attack its findings, or why there are none. Never raises."""
    study = study_again(words_of_study)
    try:
        task = _task(study.data, json.dumps(dict(study.table)))
        run = train_plan(task, study.plan(setup, seed), keep="ends")
    except CutlayerError as error:
        return {attack: _none(attack, Status.DOES_NOT_APPLY, str(error)) for attack in attacks}
    except Exception as error:
        return {attack: _none(attack, Status.FAILED, f"{type(error).__name__}: {error}") for attack in attacks}
    return {attack: _attacked(run, attack, seed) for attack in attacks}


@lru_cache(maxsize=1)
def _task(dataset: str, table: str) -> Task:
    """A worker does several trainings on the same data: load it once."""
    return Study(data=dataset, table=json.loads(table), attacks=ANY).task()


def _attacked(run: Run, spelling: str, seed: int) -> dict[str, Any]:
    """One cell. Streams start from the attack's name, so that a cell does not depend on which others ran before it."""
    for name, party in run.session.parties.items():
        party.stream = Stream(seed, name, "audit", spelling, device=run.plan.device)
    (attack,) = read_attacks([spelling])
    try:
        findings = attack_run(run, [attack], seed=seed)
    except Exception as error:
        return _none(spelling, Status.FAILED, f"{type(error).__name__}: {error}") | _utility(run)
    if not findings:
        return _none(spelling, Status.DOES_NOT_APPLY, "there is nobody to attack") | _utility(run)
    return {"rows": [_row(run.task, attack, finding) for finding in findings], **_utility(run)}


def _row(task: Task, attack: Attack, finding: Finding) -> dict[str, Any]:
    extras = dict(finding.extras)
    if "columns" in extras:
        names = [column.name for column in task.features[finding.victim].columns]
        places = extras["columns"].pop("places")
        extras["columns"] = [
            {"name": names[place] if names else f"input {place}", "value": value, "baseline": baseline}
            for place, value, baseline in zip(places, *extras["columns"].values(), strict=True)
        ]
    if "shown" in extras:
        truth, guess = (np.array(extras["shown"][key]) for key in ("truth", "guess"))
        low, high = float(truth.min()), float(truth.max())
        extras["images"] = {
            "originals": [_png(one, low, high) for one in truth],
            "guesses": [_png(one, low, high) for one in guess],
        }
        del extras["shown"]
    return {**finding.facts(), "extras": extras, "paper": _paper(attack)}


def _utility(run: Run) -> dict[str, Any]:
    metric = "accuracy" if "accuracy" in run.metrics else "r2"
    steps = max(1, -(-len(run.task.train) // run.plan.recipe.batch_size) * run.plan.recipe.epochs)
    total = sum(traffic["sent"] for traffic in run.transcript.traffic().values())
    return {
        "accuracy": run.metrics[metric],
        "utility_metric": metric,
        "bytes": total,
        "step_bytes": round(total / steps),
        "step_seconds": run.seconds / steps,
        "train_seconds": run.seconds,
        "notes": run.notes(),
    }


def _none(attack: str, status: Status, reason: str) -> dict[str, Any]:
    (one,) = read_attacks([attack])
    row = {
        "attack": one.describe(),
        "target": one.target.value,
        "status": status.value,
        "reason": " ".join(reason.split()),
    }
    return {"rows": [row]}


def _paper(attack: Attack) -> str:
    lines = (type(attack).__doc__ or "").split("Paper:")
    return " ".join(lines[1].split()).rstrip(".") if len(lines) > 1 else ""


def _png(values: np.ndarray[Any, Any], low: float, high: float) -> str:
    """A picture (channels, height, width) as PNG."""
    from PIL import Image

    scaled = np.clip((values - low) / ((high - low) or 1.0) * 255, 0, 255).astype(np.uint8)
    picture = Image.fromarray(scaled[0]) if len(scaled) != 3 else Image.fromarray(scaled.transpose(1, 2, 0))
    file = io.BytesIO()
    picture.save(file, "PNG")
    return base64.b64encode(file.getvalue()).decode()
