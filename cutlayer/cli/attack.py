"""cutlayer attack: run attacks on a finished run folder."""

from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option


def attack(
    run: Annotated[Path, Argument(help="A run folder, from `cutlayer train --out`.")],
    attack: Annotated[
        list[str] | None,
        Option(help="model-completion:labels=40, norm-score, ... Repeat it; without it, every attack."),
    ] = None,
    by: Annotated[str | None, Option(help="The attacking party; by default the first that fits each attack.")] = None,
    seed: Annotated[int, Option(help="Of the attack's own draws and of the hints granted.")] = 0,
    threads: Annotated[int, Option(help="CPU threads.")] = 1,
    trust: Annotated[bool, Option("--trust", help="Import plug-ins of your own that the run names.")] = False,
    out: Annotated[Path | None, Option(help="Write the findings to this CSV file.")] = None,
    json: Annotated[bool, Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Measure what one party learns about another from a finished run.

    Every figure stands beside its baseline: the best guess with the same rows and hints, but
    without what crossed the cut.

    \b
    cutlayer attack runs/digits --attack model-completion:labels=40
    """
    from cutlayer.auditing.attacking import attack_run, refuse_role, role_of
    from cutlayer.cli import show
    from cutlayer.data.named import task_again
    from cutlayer.errors import ConfigError
    from cutlayer.experiment.report import to_csv
    from cutlayer.files import write_text
    from cutlayer.finding import Status
    from cutlayer.run import Run, read_record
    from cutlayer.settings import Settings, read_attacks

    if out is not None and out.exists():
        raise ConfigError(f"The file {out} exists already; choose another --out.")
    if out is not None and out.suffix != ".csv":
        raise ConfigError(f"Expected --out to end in .csv, got {out}: name it so.")
    chosen = read_attacks(attack or [])
    record = read_record(run)
    opened = Run.open(run, task_again(record["task"]), Settings.of_json(record["plan"], trust=trust).plan())
    if by and not attack:  # every attack that this party can run
        chosen = [choice for choice in chosen if choice.by is role_of(opened.task, by)]
    elif by:
        for choice in chosen:
            refuse_role(opened.task, choice, by)
    findings = []
    with show.progress_bar("attacking") as progress:
        for number, choice in enumerate(chosen):
            progress(number, len(chosen), choice.name)
            findings += attack_run(opened, [choice], by=by, seed=seed, threads=threads)
    rows = [finding.facts() for finding in findings]
    if out is not None:
        write_text(out, to_csv(rows))
    if json:
        show.dump({"run": str(run), "accuracy": opened.metrics.get("accuracy"), "findings": rows})
        return
    done = [finding for finding in findings if finding.status is Status.DONE]
    lines = [
        (
            finding.attack,
            f"{finding.attacker} on the {finding.target} of {finding.victim}",
            f"{finding.metric} {finding.value:.3f} ({finding.low:.3f} to {finding.high:.3f})",
            f"{finding.baseline:.3f} ({finding.baseline_name})",
            finding.granted,
        )
        for finding in done
    ]
    columns = ["attack", "who on what", "result (95% interval)", "baseline", "knows"]
    if lines:
        show.table(f"attacks on {run}", columns, lines)
    for finding in findings:
        if finding.detail:
            typer.echo(f"{finding.attack} on {finding.victim}: {finding.detail}")
        if finding.status is not Status.DONE:
            typer.echo(f"{finding.attack} {finding.status}: {finding.reason}")
    if lines:
        typer.echo("baseline: the best guess with the same rows and hints, without what crossed the cut")
