"""Sheet: predictions for the ids of a file, written to another file."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from cutlayer.data.tables.read import read_table
from cutlayer.errors import ConfigError, DataError
from cutlayer.files import replacing
from cutlayer.net.party.party_file import PartyFile
from cutlayer.net.peers.carrier import Regroup
from cutlayer.net.predict.label_side import Answer, Asking
from cutlayer.net.predict.row_index import spell
from cutlayer.net.predict.trained import Trained
from cutlayer.net.predict.which_rows import MOST

NO_ID = "(no id)"


def check_out(ids: Path, out: Path) -> None:
    """Refuse an output that could not be written, before the others are called together."""
    if not out.parent.is_dir() or out.is_dir():
        raise ConfigError(f"Expected a file in a folder that exists for --out, got {out}.")
    if out.exists() and ids.exists() and out.samefile(ids):
        raise ConfigError("Expected --out to be another file than --ids, got the same.")
    if out.exists():
        raise ConfigError(f"The file {out} exists already; choose another --out.")


def read_sheet(path: Path, file: PartyFile) -> list[object]:
    """The ids of a file: the label party's id column; for a dataset a column `id` of row numbers."""
    column = file.data.id or "id"
    frame, _ = read_table(path, column)
    if column not in frame.columns:
        raise DataError(f"Expected the id column {column!r} in {path}, got {', '.join(frame.columns)}.")
    found: list[object] = frame[column].to_list()
    return found


def predict_sheet(
    asking: Asking, ids: list[object], out: Path, progress: Callable[[int, int, str], None]
) -> dict[str, Any]:
    """Ask about all ids, then write the predictions under a temporary name and rename it."""
    spelt = spell(ids, asking.run_)
    answers: list[Answer] = []
    asking.meet()
    while len(answers) < len(spelt):
        try:
            answers += asking.predict(spelt[len(answers) : len(answers) + MOST])
            progress(len(answers), len(spelt), "")
        except Regroup:
            asking.log("A party started again: going on where we were.")
            asking.meet()
    missing = [" ".join(one.missing) if id_ else NO_ID for one, id_ in zip(answers, spelt, strict=True)]
    _write({"id": ids, **columns(answers, asking.trained), "missing_at": missing}, out)
    known = sum(one.outputs is not None for one in answers)
    return {"rows": len(ids), "predicted": known, "out": str(out)}


def columns(answers: Sequence[Answer], trained: Trained) -> dict[str, list[Any]]:
    """Named columns of predictions: a probability per class and the likeliest class, or a number; None if unknown."""
    made = [None if one.outputs is None else numbers(one, trained) for one in answers]
    names = trained.names
    if not names:
        return {"predicted": [None if one is None else one[0] for one in made]}
    probabilities = {
        f"probability_{name}": [None if one is None else one[place] for one in made] for place, name in enumerate(names)
    }
    return {**probabilities, "predicted": [None if one is None else names[one.index(max(one))] for one in made]}


def numbers(answer: Answer, trained: Trained) -> list[float]:
    """Probabilities of the classes, or the number in its own units."""
    assert answer.outputs is not None
    if trained.classes:
        found: list[float] = torch.softmax(answer.outputs.double(), dim=0).tolist()
        return found
    return [float(answer.outputs[0]) * trained.spread + trained.mean]


def _write(table: dict[str, list[Any]], out: Path) -> None:
    import polars as pl

    frame = pl.DataFrame(table, strict=False)
    with replacing(out, private=True) as temporary:
        if out.suffix == ".parquet":
            frame.write_parquet(temporary)
        else:
            frame.write_csv(temporary)
