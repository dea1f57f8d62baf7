"""cutlayer train: train a split network on a dataset or on a table."""

from pathlib import Path
from typing import Annotated

import typer
from typer import Option

from cutlayer.cli import options

DATA, MODEL, RECIPE, OUTPUT = "Data", options.MODEL, options.RECIPE, "Output"


@options.describe_training
def train(
    data: Annotated[
        str | None,
        Option(help="A dataset by name, with options: digits, mnist:limit=5000.", rich_help_panel=DATA),
    ] = None,
    table: Annotated[Path | None, Option(help="Your own CSV or Parquet file.", rich_help_panel=DATA)] = None,
    label: Annotated[str | None, Option(help="The table's label column.", rich_help_panel=DATA)] = None,
    party: Annotated[
        list[str] | None,
        Option(help="NAME=COLUMN,COLUMN: who holds which columns. Repeat it.", rich_help_panel=DATA),
    ] = None,
    id_column: Annotated[str | None, Option(help="The table's id column, never used.", rich_help_panel=DATA)] = None,
    without: Annotated[
        list[str] | None, Option(help="A table column to leave out. Repeat it.", rich_help_panel=DATA)
    ] = None,
    goal: Annotated[
        str | None,
        Option(help="binary, multiclass or regression; by default told from the label.", rich_help_panel=DATA),
    ] = None,
    parties: Annotated[int | None, Option(help="How many parties share the columns.", rich_help_panel=DATA)] = None,
    label_party: Annotated[
        str | None,
        Option(help="Who holds the labels: the first party, or a new name for labels only.", rich_help_panel=DATA),
    ] = None,
    partition: Annotated[
        str | None,
        Option(help="Table columns without --party: even, random, importance, correlation.", rich_help_panel=DATA),
    ] = None,
    coding: Annotated[
        str | None, Option(help="Table categories: onehot (default) or integer codes.", rich_help_panel=DATA)
    ] = None,
    scaling: Annotated[
        str | None, Option(help="Table numbers: standard (default), minmax or none.", rich_help_panel=DATA)
    ] = None,
    missing: Annotated[str | None, Option(help="Table gaps: impute (default) or refuse.", rich_help_panel=DATA)] = None,
    test: Annotated[float | None, Option(help="Table rows kept for testing (0.2).", rich_help_panel=DATA)] = None,
    defence: Annotated[
        list[str] | None,
        Option(help="gaussian-noise:std=0.1, max-norm, ... Repeat it; order counts.", rich_help_panel=MODEL),
    ] = None,
    words: options.Words = options.NONE,
    valid: options.Valid = None,
    greedy: Annotated[
        str | None, Option(help="A party that cheats: it takes longer steps than agreed.", rich_help_panel=RECIPE)
    ] = None,
    seed: Annotated[
        int | None, Option(help="The same seed gives the same models, bit for bit (0).", rich_help_panel=RECIPE)
    ] = None,
    device: Annotated[str, Option(help="cpu or cuda.", rich_help_panel=RECIPE)] = "cpu",
    threads: Annotated[int, Option(help="CPU threads.", rich_help_panel=RECIPE)] = 1,
    out: Annotated[Path | None, Option(help="Write a run folder here.", rich_help_panel=OUTPUT)] = None,
    keep: Annotated[
        str, Option(help="Messages to keep: none, last (epoch), ends, all, or steps 0,10,20.", rich_help_panel=OUTPUT)
    ] = "last",
    resume: Annotated[
        bool, Option("--resume", help="Go on with an interrupted --out.", rich_help_panel=OUTPUT)
    ] = False,
    json: Annotated[bool, Option("--json", help="Print one JSON object.", rich_help_panel=OUTPUT)] = False,
) -> None:
    """Train one model over several parties' columns, with chosen defences.

    \b
    cutlayer train --data digits --epochs 30 --out runs/digits
    cutlayer train --table customers.csv --label default --party bank=age,income --party shop=visits,basket
    """
    from difflib import get_close_matches

    from cutlayer.cli import show
    from cutlayer.data import table as read_table
    from cutlayer.data.named import hold_out, read_dataset, read_parties
    from cutlayer.errors import ConfigError, Interrupted
    from cutlayer.settings import Settings
    from cutlayer.training import train_plan
    from cutlayer.words import read_words

    kinds = {greedy: "greedy-party"} if greedy else None
    own = {"defences": tuple(defence) if defence else None, "kinds": kinds, "seed": seed}
    chosen = read_words(Settings, words | {key: value for key, value in own.items() if value is not None})
    plan = chosen.plan(device=device)
    if resume and out is None:
        raise ConfigError("Expected --out FOLDER beside --resume: which run is to go on?")
    if (data is None) == (table is None):
        raise ConfigError("Expected either --data NAME or --table FILE (see `cutlayer list datasets`).")
    if data is not None:
        words_of_table = (label, party, id_column, without, goal, partition, coding, scaling, missing)
        if any(words_of_table) or test is not None:
            raise ConfigError(
                "--label, --party, --id-column, --without, --goal, --partition, --coding, --scaling, --missing and "
                "--test describe a --table, not a --data set."
            )
        task = read_dataset(data, parties=parties, label_party=label_party)
    else:
        if label is None:
            raise ConfigError("Expected --label COLUMN with --table: which column is to be predicted?")
        if party and (parties or partition):
            raise ConfigError("Expected either --party NAME=COLUMNS or --parties N with --partition, got both.")
        given = {"coding": coding, "scaling": scaling, "missing": missing, "test": test, "without": without}
        task = read_table(
            str(table),
            **{key: value for key, value in given.items() if value is not None},  # type: ignore[arg-type]
            label=label,
            parties=read_parties(party) if party else parties,
            partition="columns" if party else partition or "even",
            label_party=label_party,
            id_column=id_column,
            goal=goal,
        )
    task = hold_out(task, valid or 0.0, chosen.seed)
    try:
        with show.progress_bar("training") as progress:
            run = train_plan(task, plan, threads=threads, keep=keep, out=out, resume=resume, progress=progress)
    except KeyboardInterrupt:
        stopped = "Interrupted."
        if out and (out / "checkpoint").exists():
            stopped += f" The last checkpoint is in {out}; go on with the same command and --resume."
        raise Interrupted(stopped) from None
    if json:
        show.dump(run.to_json())
        return
    for note in [*task.notes, *run.notes()]:
        typer.echo(f"note: {note}")
    if task.label_party not in task.features:
        near = get_close_matches(task.label_party, task.features, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""  # names of organisations may well be alike
        typer.echo(f"note: {task.label_party} holds the labels only, and no columns.{hint}")
    metrics = [(name, value) for name, value in run.metrics.items()]
    show.table(f"{task.name}, test rows", ["metric", "value"], metrics)
    traffic = [(name, count["sent"], count["received"]) for name, count in run.transcript.traffic().items()]
    show.table("bytes across the cut", ["party", "sent", "received"], traffic)
    typer.echo(f"{round(run.seconds, 3)} s" + (f"; run folder: {out}" if out else ""))
