"""audit(): every attack against every defence, over seeds, in this process: `cutlayer audit` for objects."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

from cutlayer._validate import listed, shown, whole
from cutlayer.attack import Attack, Guess
from cutlayer.data.task import Task
from cutlayer.defence import Defence
from cutlayer.errors import ConfigError
from cutlayer.experiment.account import facts_of, record_of
from cutlayer.experiment.cell import Cell, cell_id
from cutlayer.experiment.lines import split_setup
from cutlayer.experiment.report import Report
from cutlayer.experiment.store import Outcome
from cutlayer.experiment.work import about, measured, refusal
from cutlayer.finding import Finding
from cutlayer.horizontal.federated import Federated
from cutlayer.plan import Plan
from cutlayer.run import Run
from cutlayer.settings import Settings, settings_of
from cutlayer.training import train

Setups = Mapping[str, Sequence[Defence]]
Trainer = Callable[..., Run | Federated]
OnGuess = Callable[[str, int, Attack, Guess, Finding], None]


def audit(
    task: Task,
    *,
    defences: Setups,
    attacks: Sequence[Attack],
    seeds: Iterable[int] = (0,),
    progress: Callable[[str], None] = lambda text: None,
    trainer: Trainer = train,
    on_guess: OnGuess = lambda name, seed, attack, guess, finding: None,
    **options: object,
) -> Report:
    """Train once per defence and seed, run every attack on each run, and report.

    `options` go to `train`, or to another `trainer`: `horizontal.federate`. Findings are those of `cutlayer audit`; a
    defence that cannot be trained says so in its rows, and an audit in which none can be raises the error.
    """
    setups, attacks, seeds = _check(defences, attacks, seeds)
    findings: list[tuple[Cell, Outcome]] = []
    training: Settings | None = None
    first_error: Exception | None = None
    for name, chosen in setups.items():
        for seed in seeds:
            progress(f"training with defence {name}, seed {seed}")
            try:
                run = trainer(task, defences=chosen, seed=seed, **{"keep": "ends"} | options)
            except Exception as error:
                first_error = first_error or error
                findings += _refused(name, attacks, seed, error)
                continue
            progress(f"attacking defence {name}, seed {seed}")
            findings += _attacked(run, name, attacks, seed, on_guess)
            training = training or settings_of(_plan(run))
    if training is None and first_error is not None:
        raise first_error
    facts = facts_of(task, training or Settings(), seeds=seeds)
    record = record_of(
        task, [cell for cell, _ in findings], {cell.id: outcome for cell, outcome in findings}, facts=facts
    )
    places = {split_setup(name): place for place, name in enumerate(setups)}
    return Report(sorted(record.rows, key=lambda row: places[row["defence"], row["strength"]]), record)


def _attacked(
    run: Run | Federated, name: str, attacks: Sequence[Attack], seed: int, on_guess: OnGuess
) -> Iterator[tuple[Cell, Outcome]]:
    facts = about(run)
    for attack in attacks:
        cell = Cell(name, attack, seed, cell_id(run.task, _plan(run), attack))
        yield cell, facts | measured(run, {cell.id: attack}, seed=seed, on_guess=partial(on_guess, name, seed))


def _refused(name: str, attacks: Sequence[Attack], seed: int, error: Exception) -> Iterator[tuple[Cell, Outcome]]:
    for attack in attacks:
        yield Cell(name, attack, seed, f"{name}, {attack.describe()}, seed {seed}"), refusal(error)


def _plan(run: Run | Federated) -> Plan:
    return run.federation.plan if isinstance(run, Federated) else run.plan


def _check(defences: object, attacks: object, seeds: object) -> tuple[Setups, tuple[Attack, ...], tuple[int, ...]]:
    """Check what will be tried before hours of training."""
    example = "cl.defences.MaxNorm()"
    if not isinstance(defences, Mapping):
        wanted = f"{{'none': [], 'max-norm': [{example}]}}"
        raise ConfigError(f"Expected defences to name each list of defences, as in {wanted}, got {shown(defences)}.")
    if isinstance(seeds, str) or not isinstance(seeds, Iterable):
        raise ConfigError(f"Expected seeds to be a list of whole numbers, such as range(3), got {shown(seeds)}.")
    setups = {name: listed(f"defences[{name!r}]", chosen, Defence, example) for name, chosen in defences.items()}
    chosen, numbers = listed("attacks", attacks, Attack, "cl.attacks.ModelCompletion()"), tuple(seeds)
    for what, given in (("defences", setups), ("attacks", chosen), ("seeds", numbers)):
        if not given:
            raise ConfigError(f"Expected {what} to hold at least one to try, got none.")
    for seed in numbers:
        whole("seed", seed)
    return setups, chosen, numbers
