"""A user's own table, CSV or Parquet, as a task: typed, filled, scaled and divided among parties."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from cutlayer._validate import at_least, number, one_of, shown, whole
from cutlayer.data.split import split_rows
from cutlayer.data.tables.assign import divided, kept, known, named
from cutlayer.data.tables.columns import clean
from cutlayer.data.tables.fitted import FittedTable
from cutlayer.data.tables.read import read_table, refuse_repeated_ids
from cutlayer.data.tables.target import LabelColumn, target
from cutlayer.data.task import Goal, Task
from cutlayer.errors import ConfigError, DataError
from cutlayer.json_types import Json
from cutlayer.rng import generator, numpy_generator

if TYPE_CHECKING:
    import polars as pl

FEWEST_ROWS = 10


def table(
    path: str | Path,
    *,
    label: str,
    parties: Mapping[str, Sequence[str]] | int | None = None,
    label_party: str | None = None,
    id_column: str | None = None,
    without: Sequence[str] = (),
    goal: Goal | str | None = None,
    coding: str = "onehot",
    scaling: str = "standard",
    missing: str = "impute",
    test: float = 0.2,
    valid: float = 0.0,
    seed: int = 0,
    partition: str = "columns",
    alpha: float = 1.0,
    beta: float = 0.5,
    sha256: str | None = None,
) -> Task:
    """Read a table and say who holds what; nothing is written, and what was changed stands in the notes.

    parties: columns per party, or a number of parties (2 if left out) to divide all columns among.
    label_party: the first party if left out; a name of its own is a party with labels only.
    without: columns that are left out, when no list of columns per party says so.
    partition: how to divide: "columns" (as named, or evenly), "even", "random", "importance" (alpha:
    how evenly, see split.by_importance) or "correlation" (beta, see split.by_correlation).
    test, valid: shares of all rows. sha256: of the file, to refuse one that changed since.

    The task's `source` holds these arguments by name, with "table" for the path, as JSON values:
    `table(source.pop("table"), **source)` makes the task again.
    """
    call = dict(locals())
    _check_words(path, label=label, label_party=label_party, id_column=id_column)
    goal = _checked(goal, coding, scaling, missing, test, valid, partition)
    whole("seed", seed)
    _check_parties(parties, partition)
    notes: list[str] = []
    frame, digest = read_table(Path(path), id_column, notes=notes)
    _check_digest(path, sha256, digest)
    label, id_column = _special(frame, path, label, id_column)
    labels = target(frame[label], goal)
    train, held_out, tested = _rows(labels, test, valid, seed)
    chosen = _chosen(frame.columns, parties, without, label, id_column, notes)
    columns = [clean(frame[name]) for names in chosen.values() for name in names]
    fitted = FittedTable.fit(columns, train.numpy(), coding=coding, scaling=scaling, missing=missing, notes=notes)
    if not fitted.columns:
        raise DataError(f"Expected columns besides the label {label!r} that vary, got none in {path}.")
    if isinstance(parties, Mapping):
        holders = _still_held(chosen, set(fitted.names))
    else:
        holders = divided(
            partition,
            2 if parties is None else parties,
            fitted.names,
            fitted.numbers(frame)[train.numpy()],
            labels.labels[train].numpy(),
            numpy_generator(seed, "table", "partition"),
            alpha=alpha,
            beta=beta,
        )
    return Task(
        name=Path(path).name.split(".")[0] or Path(path).name,
        features={party: fitted.only(names).features(frame) for party, names in holders.items()},
        labels=labels.labels,
        label_party=_label_party(label_party, holders),
        goal=labels.goal,
        classes=labels.classes,
        train=train,
        test=tested,
        valid=held_out,
        notes=tuple(notes),
        source=_source(call, label, id_column, goal, digest),
    )


def _chosen(
    columns: Sequence[str],
    parties: Mapping[str, Sequence[str]] | int | None,
    without: Sequence[str],
    label: str,
    id_column: str | None,
    notes: list[str],
) -> dict[str, list[str]]:
    """The input columns: by party as the user named them, or all of them together, to be divided."""
    free = kept(columns, without, (label, id_column))
    if not isinstance(parties, Mapping):
        return {"": free}
    holders = named(parties, columns, label, id_column)
    held = [name for names in holders.values() for name in names]
    if contradictory := [name for name in held if name not in free]:
        raise ConfigError(f"Expected {contradictory[0]!r} held by a party or in without, got it in both: remove one.")
    left_out = [name for name in free if name not in set(held)]
    if left_out:
        notes.append(f"Left out {len(left_out)} columns that no party holds: {', '.join(left_out)}.")
    return holders


def _label_party(named: str | None, holders: Mapping[str, object]) -> str:
    """Who holds the labels; there must be another party that holds columns."""
    owner = named or next(iter(holders))
    if list(holders) == [owner]:
        raise ConfigError(
            f"Expected a second party, got only {owner!r}, which holds the label: "
            "name another party with columns, or a label_party of its own."
        )
    return owner


def _source(
    call: Mapping[str, Any], label: str, id_column: str | None, goal: Goal | None, digest: str
) -> dict[str, Json]:
    """The arguments as JSON values, which make the task again; names as the table spells them."""
    source = {"table": str(call["path"]), **{name: value for name, value in call.items() if name != "path"}}
    source |= {"label": label, "id_column": id_column, "goal": goal.value if goal else None, "sha256": digest}
    if isinstance(call["parties"], Mapping):
        source["parties"] = {party: list(names) for party, names in call["parties"].items()}
    if not call["without"]:  # the names of results known before stay
        del source["without"]
    else:
        source["without"] = list(call["without"])
    return source


def _check_digest(path: str | Path, expected: str | None, digest: str) -> None:
    if expected is not None and expected != digest:
        raise DataError(
            f"Expected {path} with SHA-256 {expected[:12]}…, got {digest[:12]}…: "
            "the table changed since the run; restore it or start a new run."
        )


def _checked(
    goal: Goal | str | None,
    coding: str,
    scaling: str,
    missing: str,
    test: float,
    valid: float,
    partition: str,
) -> Goal | None:
    number("test", test)
    number("valid", valid)
    one_of("coding", coding, ("onehot", "integer"))
    one_of("scaling", scaling, ("standard", "minmax", "none"))
    one_of("missing", missing, ("impute", "refuse"))
    one_of("partition", partition, ("columns", "even", "random", "importance", "correlation"))
    if not (0 < test < 1 and valid >= 0 and test + valid < 1):
        raise ConfigError(
            f"Expected test={test} above 0, valid={valid} of 0 or more, and rows left for training: "
            "their sum must stay below 1."
        )
    if isinstance(goal, str):
        one_of("goal", goal, [known_goal.value for known_goal in Goal])
    return None if goal is None else Goal(goal)


def _check_words(path: object, *, label: object, label_party: object, id_column: object) -> None:
    if not isinstance(path, str | Path):
        raise DataError(f"Expected the path of a CSV or Parquet file, got {shown(path)}: save it to a file first.")
    if not isinstance(label, str):
        raise ConfigError(f"Expected label to be the name of one column, got {shown(label)}.")
    for name, value in (("label_party", label_party), ("id_column", id_column)):
        if value is not None and (not isinstance(value, str) or not value.strip()):
            raise ConfigError(f"Expected a name for {name}, got {shown(value)}: name it or leave it out.")


def _check_parties(parties: Mapping[str, Sequence[str]] | int | None, partition: str) -> None:
    if parties is not None and not isinstance(parties, Mapping):
        at_least("parties", parties, 1)
    if isinstance(parties, Mapping) and partition != "columns":
        raise ConfigError(
            f"Expected a number of parties for partition={partition!r}, got named columns: "
            "leave partition out, or pass how many parties to divide the columns among."
        )


def _special(frame: "pl.DataFrame", path: str | Path, label: str, id_column: str | None) -> tuple[str, str | None]:
    """Check the label and the id column, and that there are rows enough."""
    label = known(label, frame.columns, f"the label {label!r}")
    if frame.height < FEWEST_ROWS:
        raise DataError(f"Expected at least {FEWEST_ROWS} rows in {path}, got {frame.height}: add rows.")
    if id_column is None:
        return label, None
    id_column = known(id_column, frame.columns, f"id_column {id_column!r}")
    if id_column == label:
        raise ConfigError(f"Expected different columns for label and id_column, got {label!r} for both.")
    refuse_repeated_ids(frame[id_column])
    return label, id_column


def _rows(column: LabelColumn, test: float, valid: float, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Training, validation and test rows; validation is drawn from what the test left."""
    stratify = column.goal is not Goal.REGRESSION
    train, tested = split_rows(column.labels, test, generator(seed, "table", "test"), stratify)
    if not valid:
        return train, torch.empty(0, dtype=torch.int64), tested
    rng = generator(seed, "table", "valid")
    kept, held = split_rows(column.labels[train], valid / (1 - test), rng, stratify)
    return train[kept], train[held], tested


def _still_held(held: dict[str, list[str]], varying: Collection[str]) -> dict[str, list[str]]:
    left = {party: [name for name in names if name in varying] for party, names in held.items()}
    for party, names in left.items():
        if not names:
            raise DataError(
                f"Expected party {party!r} to hold a column that varies, got only constant ones "
                f"({', '.join(held[party])}): give it another, or leave the party out."
            )
    return left
