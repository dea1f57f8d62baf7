"""cutlayer predict: joint inference from the parts that every party saved; the same verb for both roles."""

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from cutlayer.cli.deployed import log_line

if TYPE_CHECKING:
    from cutlayer.net.party.connection import Connection
    from cutlayer.net.party.party_file import PartyFile
    from cutlayer.net.predict.saved_party import SavedParty


def predict(
    file: Annotated[Path, Argument(help="This party's TOML file, the one that it trained with.")],
    ids: Annotated[Path | None, Option(help="Label party: predict for the ids in this CSV or Parquet file.")] = None,
    out: Annotated[Path | None, Option(help="Label party: a new file for the predictions, with --ids.")] = None,
    serve: Annotated[bool, Option(help="Label party: answer over HTTP, at [serve] http.")] = False,
    forever: Annotated[bool, Option(help="Feature party: stay when the label party is done, for the next.")] = False,
    insecure: Annotated[bool, Option(help="Without certificates; on this machine's loopback only.")] = False,
    device: Annotated[str, Option(help="cpu or cuda.")] = "cpu",
    as_json: Annotated[bool, Option("--json", help="Print the record as JSON.")] = False,
) -> None:
    """Predict together, after `cutlayer party` has trained. Defences stay active.

    A feature party answers: `cutlayer predict shop.toml`. The label party asks, for a file
    (`cutlayer predict bank.toml --ids people.csv --out predictions.csv`) or over HTTP (`--serve`).
    """
    from cutlayer.net.party.connection import Connection, Purpose
    from cutlayer.net.party.finished_run import FinishedRun
    from cutlayer.net.party.party_file import read_file
    from cutlayer.net.predict.saved_party import SavedParty

    party_file = read_file(file)
    _check(party_file, ids, out, serve, forever)
    wanted = _read_ids(party_file, ids, out) if ids and out else []
    finished = FinishedRun.read(party_file, device)
    wait = math.inf if forever or serve else None
    with Connection(party_file, Purpose.PREDICT, insecure=insecure, wait=wait, log=log_line) as connection:
        saved = SavedParty(finished)
        if not party_file.is_label_party:
            from cutlayer.net.predict.feature_side import Responder

            record = Responder(connection, saved).run(forever=forever)
        elif out:
            record = _predict_file(connection, saved, wanted, out)
        else:
            record = _serve(connection, saved)
    for line in [json.dumps(record)] if as_json else [f"{key}: {value}" for key, value in record.items()]:
        typer.echo(line)


def _check(file: "PartyFile", ids: Path | None, out: Path | None, serve: bool, forever: bool) -> None:
    from cutlayer.errors import ConfigError

    if not file.is_label_party:
        if ids or out or serve:
            raise ConfigError(
                f"Expected no --ids, --out or --serve at the feature party {file.party.name!r}: it answers only."
            )
    elif forever:
        raise ConfigError("Expected --forever at a feature party; the label party has --serve.")
    elif serve == bool(ids and out) or bool(ids) != bool(out):
        raise ConfigError("Expected --ids FILE and --out FILE, or --serve, at the label party.")


def _read_ids(file: "PartyFile", ids: Path, out: Path) -> list[object]:
    from cutlayer.net.predict.id_file import check_output, read_wanted_ids

    check_output(ids, out)
    return read_wanted_ids(ids, file)


def _predict_file(connection: "Connection", saved: "SavedParty", ids: list[object], out: Path) -> dict[str, Any]:
    from cutlayer.cli.show import progress_bar
    from cutlayer.net.predict.id_file import predict_file
    from cutlayer.net.predict.label_side import Predictor

    predictor = Predictor(connection, saved)
    with connection.opened(), progress_bar("predicting") as progress:
        record = predict_file(predictor, ids, out, progress)
        predictor.finish()
    return record


def _serve(connection: "Connection", saved: "SavedParty") -> dict[str, Any]:
    from cutlayer.errors import ConfigError

    try:
        from cutlayer.net.predict.http_app import serve
    except ModuleNotFoundError as error:
        raise ConfigError(
            f'Expected {error.name} to be installed for --serve, found none: pip install "cutlayer[serve]".'
        ) from error
    from cutlayer.net.predict.label_side import Predictor

    return serve(Predictor(connection, saved), log_line)
