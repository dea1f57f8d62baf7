"""Id file: predictions for the ids of one file, written to another."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from cutlayer.data.tables.read import read_table
from cutlayer.errors import ConfigError, DataError
from cutlayer.files import replacing
from cutlayer.net.party.party_file import PartyFile
from cutlayer.net.peers.events import Regroup
from cutlayer.net.predict.label_side import Answer, Predictor
from cutlayer.net.predict.predictions import NO_ID, columns_of
from cutlayer.net.predict.row_index import normalise_ids
from cutlayer.net.predict.row_request import ID_LIMIT
from cutlayer.progress import Progress


def check_output(ids: Path, out: Path) -> None:
    """Refuse an output that could not be written, before the others are called together."""
    if not out.parent.is_dir() or out.is_dir():
        raise ConfigError(f"Expected a file in a folder that exists for --out, got {out}.")
    if out.exists() and ids.exists() and out.samefile(ids):
        raise ConfigError("Expected --out to be another file than --ids, got the same.")
    if out.exists():
        raise ConfigError(f"The file {out} exists already; choose another --out.")


def read_wanted_ids(path: Path, file: PartyFile) -> list[object]:
    """The ids of a file: the label party's id column; for a dataset a column `id` of row numbers."""
    column = file.data.id or "id"
    frame, _ = read_table(path, column)
    if column not in frame.columns:
        raise DataError(f"Expected the id column {column!r} in {path}, got {', '.join(frame.columns)}.")
    ids: list[object] = frame[column].to_list()
    return ids


def predict_file(predictor: Predictor, ids: list[object], out: Path, progress: Progress) -> dict[str, int | str]:
    """Ask about all ids, then write the predictions; how many there are."""
    normalised = normalise_ids(ids, predictor.run)
    answers: list[Answer] = []
    predictor.meet()
    while len(answers) < len(normalised):
        try:
            answers += predictor.predict(normalised[len(answers) : len(answers) + ID_LIMIT])
            progress(len(answers), len(normalised), "")
        except Regroup:
            predictor.log("A party started again: going on where we were.")
            predictor.meet()
    missing = [" ".join(answer.missing) if id_ else NO_ID for answer, id_ in zip(answers, normalised, strict=True)]
    _write({"id": ids, **columns_of(answers, predictor.saved.run), "missing_at": missing}, out)
    predicted = sum(answer.outputs is not None for answer in answers)
    return {"rows": len(ids), "predicted": predicted, "out": str(out)}


def _write(table: Mapping[str, Sequence[object]], out: Path) -> None:
    import polars as pl

    frame = pl.DataFrame(table, strict=False)
    with replacing(out, private=True) as temporary:
        if out.suffix == ".parquet":
            frame.write_parquet(temporary)
        else:
            frame.write_csv(temporary)
