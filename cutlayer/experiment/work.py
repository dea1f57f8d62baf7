"""Work: do a unit. Train, then attack and check; every part's outcome is plain data, also when it went wrong."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence

import torch

from cutlayer.attack import Attack
from cutlayer.auditing.attacking import OnGuess, attack_run
from cutlayer.errors import ConfigError, CutlayerError
from cutlayer.experiment.finding_row import FindingRow, finding_row, row_without_finding
from cutlayer.experiment.store import Outcome
from cutlayer.experiment.unit import Part, Unit
from cutlayer.finding import Status
from cutlayer.horizontal.federated import Federated
from cutlayer.rng import Stream
from cutlayer.run import Run
from cutlayer.settings import read_attacks
from cutlayer.spec import imported


def work(unit: Unit) -> Iterator[Outcome]:
    """Train, and give an outcome for each part as it is done. What goes wrong is in the outcome; nothing is raised."""
    torch.backends.cudnn.benchmark = unit.device != "cpu"  # shapes repeat: let it choose the fastest kernels
    start = time.perf_counter()
    try:
        task = unit.task()
    except Exception as error:
        yield from (stamped(part, failure(error)) for part in unit.parts)
        return
    try:
        run = unit.train(task)
    except Exception as error:
        yield from (stamped(part, refusal(error)) for part in unit.parts)
        return
    for part in unit.parts:
        attacks = {spelling: read_attacks([spelling])[0] for spelling in part.attacks}
        outcome = about(run) | measured(run, attacks, part.checks, seed=unit.training.seed)
        yield stamped(part, outcome | {"device": unit.device, "seconds": round(time.perf_counter() - start, 1)})


def stamped(part: Part, outcome: Outcome) -> Outcome:
    """An outcome with its key and words."""
    return {"key": part.key, **part.words, **outcome}


def failure(error: Exception) -> Outcome:
    """The outcome where something broke: it may go well next time."""
    return {"status": Status.FAILED.value, "reason": _sentence(error)}


def refusal(error: Exception) -> Outcome:
    """The outcome of a training that did not come about: one that cutlayer refuses or gives up on is final."""
    if isinstance(error, CutlayerError):
        return {"status": Status.DOES_NOT_APPLY.value, "reason": " ".join(str(error).split())}
    return failure(error)


def about(run: Run | Federated) -> Outcome:
    """What a training says, whatever is measured on it."""
    recipe = (run.federation.plan if isinstance(run, Federated) else run.plan).recipe
    return {
        "metrics": run.metrics,
        "losses": [round(epoch["loss"], 5) for epoch in run.history],
        "bytes": run.transcript.traffic(),
        "steps": max(1, -(-len(run.task.train) // recipe.batch_size) * recipe.epochs),
        "train_seconds": run.seconds,
        "notes": [] if isinstance(run, Federated) else run.notes(),
    }


def measured(
    run: Run | Federated,
    attacks: Mapping[str, Attack],
    checks: Sequence[str] = (),
    *,
    seed: int,
    on_guess: OnGuess = lambda attack, guess, finding: None,
) -> Outcome:
    """The rows of each attack and the figures of each check, by their names; failed if one of them did."""
    rows = {name: attacked(run, attack, seed=seed, on_guess=on_guess) for name, attack in attacks.items()}
    broken = [row["reason"] for victims in rows.values() for row in victims if row["status"] == Status.FAILED]
    figures: dict[str, dict[str, float]] = {}
    for name in checks:
        reset_streams(run, seed, name)
        try:
            figures[name] = _check_named(name)(run)
        except Exception as error:
            broken.append(_sentence(error))
    status = Status.FAILED if broken else Status.DONE
    return {"status": status.value, "reason": "; ".join(broken), "attacks": rows, "checks": figures}


def attacked(
    run: Run | Federated,
    attack: Attack,
    *,
    seed: int,
    on_guess: OnGuess = lambda attack, guess, finding: None,
) -> list[FindingRow]:
    """The rows of one attack, one for each victim. They do not depend on which attacks ran before it."""
    reset_streams(run, seed, attack.describe())
    try:
        findings = attack_run(run, [attack], seed=seed, on_guess=on_guess)
    except Exception as error:
        return [row_without_finding(attack, Status.FAILED, _sentence(error))]
    if not findings:
        return [row_without_finding(attack, Status.DOES_NOT_APPLY, "there is nobody to attack")]
    return [finding_row(run.task, attack, finding) for finding in findings]


def reset_streams(run: Run | Federated, seed: int, name: str) -> None:
    """Let the parties draw from streams named after what is measured next."""
    device = run.federation.plan.device if isinstance(run, Federated) else run.plan.device
    parties = run.clients if isinstance(run, Federated) else run.session.parties
    for party, member in parties.items():
        member.stream = Stream(seed, party, "audit", name, device=device)


def _check_named(name: str) -> Callable[[Run | Federated], dict[str, float]]:
    check = imported(name, "check")
    if not callable(check):
        raise ConfigError(f"Expected the check {name!r} to be a function of a run.")
    return check


def _sentence(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())
