"""cutlayer bench: the benchmarks of this repository, as ratios against a reference in the same process."""

from typing import Annotated

from typer import Argument, Option

from cutlayer.exports import files_in

NAMES = files_in("bench")


def bench(
    name: Annotated[str, Argument(help=f"Which benchmark: {', '.join(NAMES)}.")] = "train",
    json: Annotated[bool, Option("--json", help="Print one JSON object; `ratio` is the headline figure.")] = False,
    repeats: Annotated[int, Option(help="Interleaved repetitions; the fastest are compared.")] = 5,
    size: Annotated[int | None, Option(help="psi: ids a side, 100000 by default.")] = None,
) -> None:
    """Compare with a reference that runs in the same process: machines are noisy, ratios are not."""
    from cutlayer import bench as benchmarks
    from cutlayer._validate import at_least, one_of
    from cutlayer.cli import show

    at_least("repeats", repeats, 1)
    at_least("size", 2 if size is None else size, 2)
    one_of("benchmark", name, NAMES)
    with show.progress_bar(f"bench {name}") as progress:
        result = benchmarks.run(name, repeats, progress, size)
    if json:
        show.dump(result)
    else:
        show.table(f"bench {name}", ["figure", "value"], list(result.items()))
