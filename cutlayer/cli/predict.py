"""cutlayer predict: joint inference from the parts that every party saved; the same verb for both roles."""

import json
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

if TYPE_CHECKING:
    from cutlayer.net.party.party_file import PartyFile


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
    from cutlayer.net.party.party_file import read_file

    read = read_file(file)
    _check(read, ids, out, serve, forever)
    common: dict[str, Any] = {"insecure": insecure, "device": device, "log": _say}
    if not read.is_label_party:
        from cutlayer.net.predict.serving import Answering

        record = Answering(read, patience=math.inf if forever else None, **common).run(forever=forever)
    elif serve:
        record = _serve(read, common)
    else:
        assert ids is not None and out is not None
        record = _sheet(read, ids, out, common)
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


def _sheet(file: "PartyFile", ids: Path, out: Path, common: dict[str, Any]) -> dict[str, Any]:
    from cutlayer.cli.show import progress_bar
    from cutlayer.errors import CutlayerError
    from cutlayer.net.predict.id_file import check_out, predict_sheet, read_sheet
    from cutlayer.net.predict.label_side import Asking
    from cutlayer.training import using_threads

    check_out(ids, out)
    wanted = read_sheet(ids, file)
    asking = Asking(file, **common)
    asking.connect()
    try:
        with using_threads(1), progress_bar("predicting") as progress:
            record = predict_sheet(asking, wanted, out, progress)
        asking.finish()
        return record
    except CutlayerError as error:
        asking.say_why(error)
        raise
    finally:
        asking.close()


def _serve(file: "PartyFile", common: dict[str, Any]) -> dict[str, Any]:
    from cutlayer.errors import ConfigError

    try:
        from cutlayer.net.predict.web import serve
    except ModuleNotFoundError as error:
        raise ConfigError(
            f'Expected {error.name} to be installed for --serve, found none: pip install "cutlayer[serve]".'
        ) from error
    from cutlayer.net.predict.label_side import Asking

    return serve(Asking(file, patience=math.inf, **common), common["log"])


def _say(text: str) -> None:
    print(f"cutlayer: {text}", file=sys.stderr, flush=True)
