"""run_units(): do what is missing of some units of work, in this process, in others or on a cluster."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor, as_completed
from contextlib import nullcontext

from cutlayer.errors import RunError
from cutlayer.experiment.store import Outcome, Outcomes
from cutlayer.experiment.unit import Unit
from cutlayer.experiment.work import work
from cutlayer.experiment.workers import processes
from cutlayer.progress import Progress, silent


def run_units(
    units: Iterable[Unit],
    store: Outcomes,
    *,
    workers: int = 1,
    executor: Executor | None = None,
    progress: Progress = silent,
    note: Callable[[Outcome], str] = lambda outcome: "",
) -> None:
    """Store the outcome of every part that is missing as soon as it is there; a second call does nothing.

    With one worker the work happens in this process, and a part is stored when it is done; elsewhere the parts of a
    training come back together. `note` says something about a new outcome, for the progress bar.
    """
    known: set[str] = set()
    left: set[str] = set()
    missing = []
    for unit in units:
        parts = [part for part in unit.parts if part.key not in known]
        known |= {part.key for part in parts}
        parts = [part for part in parts if not store.settled(part.key)]
        left |= {part.key for part in parts}
        missing += [unit.only(parts)] if parts else []
    progress(len(known) - len(left), len(known), "")
    try:
        for outcome in _outcomes(missing, min(len(missing), workers), executor):
            store.add(outcome)
            left.discard(outcome["key"])
            progress(len(known) - len(left), len(known), note(outcome))
    except BrokenExecutor as error:
        raise RunError(
            f"A worker died, perhaps for lack of memory; what is done is in {store.path.parent}: the same command goes "
            "on, with fewer --workers if it happens again."
        ) from error


def _outcomes(units: Sequence[Unit], workers: int, executor: Executor | None) -> Iterator[Outcome]:
    if executor is None and workers <= 1:
        for unit in units:
            yield from work(unit)
        return
    with processes(workers) if executor is None else nullcontext(executor) as pool:
        futures = [pool.submit(work_through, unit) for unit in units]
        try:
            for future in as_completed(futures):
                yield from future.result()
        finally:
            for future in futures:  # when the reader stops, so does what has not begun
                future.cancel()


def work_through(unit: Unit) -> list[Outcome]:
    """All outcomes of a unit: what another process sends back."""
    return list(work(unit))
