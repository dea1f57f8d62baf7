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
from cutlayer.experiment.report import Report
from cutlayer.experiment.store import Outcome
from cutlayer.experiment.work import about, measured, refusal
from cutlayer.finding import Finding
from cutlayer.horizontal.federated import Federated
from cutlayer.plan import Plan
from cutlayer.run import Run
from cutlayer.settings import Settings, read_defences, settings_of
from cutlayer.setup import Setup, read_setup, setup_of, setup_of_objects
from cutlayer.spec import describe
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
    defence that cannot be trained says so in its rows, and an audit in which none can be raises the error. The keys of
    `defences` are labels for the reader; the column `strength` has the settings of the objects.
    """
    defences, attacks, seeds = _check(defences, attacks, seeds)
    setups = _setups(defences)
    findings: list[tuple[Cell, Outcome]] = []
    training: Settings | None = None
    first_error: Exception | None = None
    for name, chosen in defences.items():
        for seed in seeds:
            progress(f"training with defence {name}, seed {seed}")
            try:
                run = trainer(task, defences=chosen, seed=seed, **{"keep": "ends"} | options)
            except Exception as error:
                first_error = first_error or error
                findings += _refused(setups[name], attacks, seed, error)
                continue
            progress(f"attacking defence {name}, seed {seed}")
            findings += _attacked(run, setups[name], attacks, seed, partial(on_guess, name, seed))
            training = training or settings_of(_plan(run))
    if training is None and first_error is not None:
        raise first_error
    facts = facts_of(task, training or Settings(), seeds=seeds)
    record = record_of(
        task, [cell for cell, _ in findings], {cell.id: outcome for cell, outcome in findings}, facts=facts
    )
    places = list(setups.values())
    return Report(sorted(record.rows, key=lambda row: places.index(setup_of(row))), record)


def _setups(defences: Setups) -> dict[str, Setup]:
    """The setup of each list of defences: its key is a label, unless it spells the objects."""
    setups = {name: _setup(name, chosen) for name, chosen in defences.items()}
    keys: dict[Setup, str] = {}
    for name, setup in setups.items():
        if (other := keys.setdefault(setup, name)) != name:
            raise ConfigError(
                f"Expected defences of different names, got {other!r} and {name!r}: a report calls both "
                f"{setup.spelling}."
            )
    return setups


def _setup(name: str, chosen: Sequence[Defence]) -> Setup:
    word, setup = read_setup(name), setup_of_objects(chosen)
    if word.is_open and chosen:
        raise ConfigError(f"Expected no defence under the name {name!r}, got {setup.spelling}.")
    return word if word.names == setup.names and _spells(name, chosen) else setup_of_objects(chosen, label=name)


def _spells(name: str, chosen: Sequence[Defence]) -> bool:
    """Whether the command line would read these defences from the name."""
    try:
        read = read_defences([name])
    except ConfigError:
        return False
    return [describe(defence, full=True) for defence in read] == [describe(defence, full=True) for defence in chosen]


def _attacked(
    run: Run | Federated,
    setup: Setup,
    attacks: Sequence[Attack],
    seed: int,
    on_guess: Callable[[Attack, Guess, Finding], None],
) -> Iterator[tuple[Cell, Outcome]]:
    facts = about(run)
    for attack in attacks:
        cell = Cell(setup, attack, seed, cell_id(run.task, _plan(run), attack))
        yield cell, facts | measured(run, {cell.id: attack}, seed=seed, on_guess=on_guess)


def _refused(setup: Setup, attacks: Sequence[Attack], seed: int, error: Exception) -> Iterator[tuple[Cell, Outcome]]:
    for attack in attacks:
        yield Cell(setup, attack, seed, f"{setup.spelling}, {attack.describe()}, seed {seed}"), refusal(error)


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
