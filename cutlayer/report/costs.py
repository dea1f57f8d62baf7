"""What protection costs, bytes and time, and what it is worth: CAP, accuracy times reconstruction error."""

from collections.abc import Mapping, Sequence
from typing import Literal

from cutlayer.finding import Target
from cutlayer.metrics.interval import mean_interval
from cutlayer.report.advantage import Estimate
from cutlayer.report.blocks import Entry, Table
from cutlayer.report.cells import MatrixCell, estimate, extras, group, per_run
from cutlayer.report.record import Record

Cost = Literal["accuracy", "bytes", "step_bytes", "step_seconds", "train_seconds"]
COSTS: tuple[Cost, ...] = ("bytes", "step_bytes", "step_seconds", "train_seconds")
ALL: tuple[Cost, ...] = ("accuracy", *COSTS)
HEAD = ("setup", "utility", "bytes per training", "bytes per step", "seconds per step", "seconds per training")


def costs(record: Record) -> dict[str, dict[str, float | None]]:
    """Means over seeds, by setup: the model's utility, bytes and seconds."""
    spending = {}
    for setup, seeds in per_run(record).items():
        means: dict[str, Estimate | None] = {key: estimate(row[key] for row in seeds.values()) for key in ALL}
        spending[setup.spelling] = {key: None if mean is None else mean.mean for key, mean in means.items()}
    return spending


def table(spending: Mapping[str, Mapping[str, float | None]]) -> Table:
    """One line per setup."""
    rows = [
        [setup, entry["accuracy"], *(_whole(key, entry[key]) for key in COSTS)] for setup, entry in spending.items()
    ]
    return Table("What each setup costs, mean over seeds; without the time of the attacks.", HEAD, rows)


def _whole(key: str, value: float | None) -> Entry:
    return round(value) if value is not None and "bytes" in key else value


def cap(cells: Sequence[MatrixCell]) -> list[tuple[float, float]]:
    """(accuracy, error) at each strength of one defence under one attack; CAP is the mean of their products.

    FedAdOb, Definition 2: CAP = 1/m sum over strengths s of Acc(s) Rerr(s), in fractions.
    """
    points = []
    for cell in cells:
        if cell.accuracy is not None:
            points.append((cell.accuracy.mean, cell.measure.error(cell.value.mean)))
    return points


def cap_table(record: Record, cells: Sequence[MatrixCell]) -> Table | None:
    """CAP of every defence under every attack that reconstructs; with DCS where the record holds it."""
    rows: list[list[Entry]] = []
    names = []
    with_dcs = any(extras(record, cell, lambda extra: extra.get("dcs")) for cell in cells)
    done = [cell for cell in cells if cell.done and cell.target is not Target.OUTCOME]
    for line in group(done, lambda cell: (cell.target, cell.attack, cell.attacker, cell.victim)).values():
        for defence, sweep in group(line, lambda cell: cell.defence).items():
            points = cap(sweep)
            if not points:
                continue
            products = [accuracy * wrong for accuracy, wrong in points]
            row: list[Entry] = [f"{sweep[0].attack} on {sweep[0].victim}", defence, len(points)]
            row += [mean_interval(products)[0], min(products), max(products)]
            if with_dcs:
                scores = estimate(
                    score for cell in sweep for _, score in extras(record, cell, lambda extra: extra.get("dcs"))
                )
                row.append(None if scores is None else scores.mean)
            rows.append(row)
            names.append(sweep[0].target)
    if not rows:
        return None
    head = ["attack", "defence", "strengths", "CAP", "lowest", "highest", *(["DCS"] if with_dcs else [])]
    caption = (
        "CAP: the mean over a defence's strengths of utility times the attack's error (higher is better; compare "
        "within one attack only). Errors are the MSE, or one minus the accuracy or the folded AUC."
    )
    return Table(caption, head, rows, names)
