"""cutlayer audit: every attack against every defence, then a report that can be shown."""

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from cutlayer.cli import options

if TYPE_CHECKING:
    from cutlayer.experiment.study import Study
    from cutlayer.report.record import Record

DATA, MATRIX, ANSWER, WORK = "Data", "What is tried", "Recommendation", "Work and output"


@options.describe_training
def audit(
    what: Annotated[
        Path | None, Argument(help="A study file (.toml), or your own CSV or Parquet table; without it, digits.")
    ] = None,
    data: Annotated[str | None, Option(help="A dataset by name: bank, mnist:limit=5000.", rich_help_panel=DATA)] = None,
    label: Annotated[str | None, Option(help="The table's label column.", rich_help_panel=DATA)] = None,
    party: Annotated[
        list[str] | None, Option(help="NAME=COLUMN,COLUMN: who holds what. Repeat it.", rich_help_panel=DATA)
    ] = None,
    label_party: Annotated[str | None, Option(help="Who holds the labels.", rich_help_panel=DATA)] = None,
    id_column: Annotated[str | None, Option(help="The table's id column, never used.", rich_help_panel=DATA)] = None,
    without: Annotated[
        list[str] | None, Option(help="A table column to leave out. Repeat it.", rich_help_panel=DATA)
    ] = None,
    goal: Annotated[
        str | None, Option(help="binary, multiclass or regression, of a table.", rich_help_panel=DATA)
    ] = None,
    depth: Annotated[str, Option(help="quick, standard or deep.", rich_help_panel=MATRIX)] = "quick",
    defence: Annotated[
        list[str] | None,
        Option(help="Instead of the preset's: none, hash:bits=8+max-norm, ...", rich_help_panel=MATRIX),
    ] = None,
    attack: Annotated[list[str] | None, Option(help="Instead of the preset's.", rich_help_panel=MATRIX)] = None,
    seeds: Annotated[int | None, Option(help="How many seeds.", rich_help_panel=MATRIX)] = None,
    words: options.Words = options.NONE,
    valid: options.Valid = None,
    threat: Annotated[
        list[str] | None, Option(help="labels, features or outcome; all by default.", rich_help_panel=ANSWER)
    ] = None,
    max_accuracy_loss: Annotated[float, Option(help="Points that a defence may cost.", rich_help_panel=ANSWER)] = 2.0,
    out: Annotated[Path, Option(help="The study folder; the same one again goes on.", rich_help_panel=WORK)] = Path(
        "audit"
    ),
    save_study: Annotated[Path | None, Option(help="Write the study file and stop.", rich_help_panel=WORK)] = None,
    workers: Annotated[int | None, Option(help="Processes; as many as fit by default.", rich_help_panel=WORK)] = None,
    dask: Annotated[str | None, Option(help="Address of a Dask scheduler to work on.", rich_help_panel=WORK)] = None,
    track: Annotated[
        str | None, Option(help="mlflow:URI or tensorboard:FOLDER; nothing by default.", rich_help_panel=WORK)
    ] = None,
    json: Annotated[bool, Option("--json", help="Print one JSON object.", rich_help_panel=WORK)] = False,
) -> None:
    """Measure what each party can learn, under every defence that is tried, and say which one to take.

    \b
    cutlayer audit                                   # the embedded digits
    cutlayer audit customers.csv --label default --party bank=age,income --party shop=visits,basket --out audit/
    cutlayer audit --data bank --bottom linear --depth standard --max-accuracy-loss 2 --threat features
    """
    from cutlayer._validate import at_least
    from cutlayer.cli import show
    from cutlayer.errors import ConfigError, Interrupted
    from cutlayer.experiment.account import THREATS, Wish
    from cutlayer.experiment.conduct import conduct
    from cutlayer.experiment.track import tracked
    from cutlayer.experiment.workers import dask_cluster
    from cutlayer.files import write_text
    from cutlayer.report.files import write_all

    table = {"label": label, "parties": party, "label_party": label_party, "id_column": id_column}
    table |= {"without": without, "goal": goal}
    if workers is not None:
        at_least("workers", workers, 1)
    matrix = {"defences": tuple(defence or ()), "attacks": tuple(attack or ()), "valid": valid}
    if words.pop("defences", None):
        typer.echo(
            "note: the defences in --settings are left out; an audit tries those of --depth or --defence.", err=True
        )
    study = _study(what, data, table, depth, matrix, seeds, words)
    if save_study is not None:
        write_text(save_study, study.to_toml(save_study.parent))
        return
    for word in threat or ():
        if word not in THREATS:
            raise ConfigError(f"Expected --threat to be one of {', '.join(THREATS)}, got {word!r}.")
    wish = Wish(tuple(threat or THREATS), max_accuracy_loss)
    command = "cutlayer " + shlex.join(sys.argv[1:]) if sys.argv[1:2] == ["audit"] else ""
    try:
        with show.progress_bar("auditing") as progress, tracked(track) as log:
            record = conduct(
                study,
                out,
                workers=workers,
                executor=None if dask is None else dask_cluster(dask),
                wish=wish,
                command=command,
                progress=progress,
            )
            write_all(record, out)
            log(record)
    except KeyboardInterrupt:
        raise Interrupted(f"Interrupted. What is done is in {out}; the same command goes on.") from None
    _show(record, out, json)
    if record.choice is None or record.choice["choice"] is None:
        why = record.choice["why"] if record.choice else _no_finding(record, wish.threats)
        raise ConfigError(f"The report is in {out}, without a recommendation: {why}")


def _no_finding(record: "Record", threats: tuple[str, ...]) -> str:
    """Why there is nothing to choose by."""
    from cutlayer.finding import Status

    failed = [row for row in record.rows if row["status"] is Status.FAILED and row["target"] in threats]
    if failed:
        return f"{len(failed)} attacks failed, such as {failed[0]['attack']}: {failed[0]['reason']}"
    return f"no attack on {', '.join(threats)} applies to this study."


def _study(
    what: Path | None,
    data: str | None,
    table: dict[str, Any],
    depth: str,
    matrix: dict[str, Any],
    seeds: int | None,
    words: dict[str, object],
) -> "Study":
    from dataclasses import replace

    from cutlayer._validate import at_least
    from cutlayer.data.named import read_parties
    from cutlayer.errors import ConfigError
    from cutlayer.experiment.presets import preset
    from cutlayer.experiment.study import Study, read_study
    from cutlayer.settings import Settings
    from cutlayer.words import changed, read_words

    given: dict[str, Any] = {key: value for key, value in matrix.items() if value}
    if seeds is not None:
        at_least("seeds", seeds, 1)
        given["seeds"] = tuple(range(seeds))
    if what is not None and what.suffix == ".toml":
        if data or any(table.values()):
            raise ConfigError(f"Expected data in the study file {what} or on the command line, got both.")
        study = read_study(what)
        return replace(study, **given, training=changed(study.training, words))
    usual = preset(depth)
    given = {"defences": usual.defences, "attacks": usual.attacks, "seeds": usual.seeds} | given
    given["training"] = read_words(Settings, words)
    if what is None:
        if any(table.values()):
            raise ConfigError(
                "Expected a table beside --label, --party, --label-party, --id-column, --without and --goal: "
                "cutlayer audit FILE."
            )
        return Study(data=data or "digits", **given)
    if data is not None or table["label"] is None:
        raise ConfigError(f"Expected --label COLUMN and no --data with the table {what}.")
    columns = {key: value for key, value in table.items() if value}
    if "parties" in columns:
        columns["parties"] = read_parties(columns["parties"])
    return Study(table={"path": str(what), **columns}, **given)


def _show(record: "Record", out: Path, json: bool) -> None:
    from cutlayer.cli import show
    from cutlayer.experiment.choice import options as setups
    from cutlayer.finding import Target

    if json:
        show.dump({"out": str(out), "choice": record.choice, "findings": record.rows, "missing": record.missing})
        return
    for target in Target:
        lines = [
            (o.name, f"{100 * o.accuracy:.1f}%", f"{100 * o.leakage:.0f}%", o.worst, "yes" if o.sealed else "no")
            for o in sorted(setups(record.rows, (target,)), key=lambda option: option.leakage)
        ]
        columns = ["setup", "model", "worst attack gets", "which", "at its baseline"]
        if lines:
            show.table(f"{target}: how far from the baseline to perfect", columns, lines)
    if record.choice is not None:
        typer.echo(record.choice["why"])
    typer.echo(f"report: {out / 'report.html'}")
