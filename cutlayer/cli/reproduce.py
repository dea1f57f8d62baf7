"""cutlayer reproduce: a paper's tables, side by side with ours."""

from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from cutlayer.exports import folders_in


def reproduce(
    paper: Annotated[str, Argument(help=f"Which paper: {', '.join(folders_in('papers'))}.")],
    table: Annotated[list[str] | None, Option(help="A table by its number or name: 2, columns. Repeat it.")] = None,
    figure: Annotated[list[str] | None, Option(help="A figure by its number. Repeat it.")] = None,
    data: Annotated[list[str] | None, Option(help="Only this dataset. Repeat it.")] = None,
    seeds: Annotated[int | None, Option(help="How many seeds (1); with --show, all that are stored.")] = None,
    quick: Annotated[bool, Option("--quick", help="Small models and samples: minutes on two cores.")] = False,
    device: Annotated[str, Option(help="cpu or cuda.")] = "cpu",
    workers: Annotated[int, Option(help="Trainings at the same time.")] = 1,
    dask: Annotated[str | None, Option(help="Address of a Dask scheduler to work on.")] = None,
    out: Annotated[Path | None, Option(help="Folder of results, also what is resumed.")] = None,
    show_only: Annotated[bool, Option("--show", help="Run nothing; show what is there.")] = False,
    json: Annotated[bool, Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Print a paper's values, ours with their interval, and the gap; interrupted runs resume.

    \b
    cutlayer reproduce hashvfl --table 2 --quick
    cutlayer reproduce hashvfl --show
    """
    from cutlayer._validate import at_least
    from cutlayer.cli import show
    from cutlayer.experiment.workers import dask_cluster
    from cutlayer.papers import reproduce as papers

    at_least("seeds", 1 if seeds is None else seeds, 1)
    at_least("workers", workers, 1)
    folder = out or Path("results") / paper / ("quick" if quick else "")
    wanted = [*(table or []), *(f"figure {number}" for number in figure or [])]
    with show.progress_bar(f"reproducing {paper}") as progress:
        rows = papers.reproduce(
            paper,
            tables=wanted,
            datasets=data or [],
            seeds=None if seeds is None else range(seeds),
            quick=quick,
            device=device,
            workers=workers,
            executor=None if dask is None else dask_cluster(dask),
            folder=folder,
            run=not show_only,
            progress=progress,
        )
    if not show_only:
        words = [*(f"--table {t}" for t in table or []), *(f"--figure {f}" for f in figure or [])]
        words += [f"--data '{d}'" for d in data or []] + [f"--seeds {seeds or 1}"] + (["--quick"] if quick else [])
        papers.save(rows, folder, " ".join(["cutlayer reproduce", paper, *words]))
    if json:
        show.dump(rows)
        return
    for name, lines in rows.items():
        columns = ["dataset", "method", "setting", "paper", "ours", "low", "high", "gap", "seeds"]
        title = name if name.startswith("figure") else f"table {name}"
        shown = [["" if line[c] is None else line[c] for c in columns] for line in lines]
        show.table(f"{paper}, {title}", columns, shown)
    typer.echo(f"results: {folder}")
